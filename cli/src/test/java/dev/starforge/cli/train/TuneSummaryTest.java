package dev.starforge.cli.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.text.json.Jackson;
import dev.starforge.train.tune.Tune;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.node.ObjectNode;

final class TuneSummaryTest {
    private static void figures(ObjectNode column, double scale, double sign) {
        column.putObject("bits_per_byte")
                .put("value", sign * 1.12345)
                .put("low", sign * 1.2)
                .put("high", sign * 1.05);
        column.putObject("perplexity")
                .put("value", sign * 7.12345 * scale)
                .put("low", sign * 8.2 * scale)
                .put("high", sign * 6.05 * scale);
    }

    private static String text(double scale, int width) {
        ObjectNode measured = Jackson.object();
        figures(measured.putObject("base"), scale, 1);
        figures(measured.putObject("tuned"), scale, 1);
        figures(measured.putObject("tuned_minus_base"), scale, -1);
        measured.putObject("sample").put("text", "32,768 of 153,440 tokens (7,600 count in the loss), seed 42");
        measured.putArray("prompts")
                .addObject()
                .put("prompt", "\tint " + "x".repeat(200))
                .putObject("base")
                .put("text", "y".repeat(200));
        Tune.Result result =
                new Tune.Result(Tune.End.FINISHED, Optional.empty(), Jackson.object(), Optional.of(measured), "");
        return new TuneSummary(result, 299, width).text();
    }

    @Test
    void theTableFitsEightyColumns() {
        for (double scale : new double[] {1, 10, 100, 1000}) {
            assertThat(text(scale, 80).lines())
                    .allSatisfy(line -> assertThat(line).hasSizeLessThanOrEqualTo(80));
        }
        assertThat(text(1, Integer.MAX_VALUE)).as("code is whole in a file").contains("y".repeat(200));
    }

    @Test
    void figuresHaveTheDigitsThatMatter() {
        assertThat(text(1, 80)).contains("1.123 [1.200, 1.050]", "-1.123 [-1.200, -1.050]");
        assertThat(text(100, 80)).contains("712.3 [820.0, 605.0]");
    }

    @Test
    void sameAgainSaysWhy() {
        Tune.Result result = new Tune.Result(
                Tune.End.UP_TO_DATE, Optional.<Path>empty(), Jackson.object(), Optional.empty(), "no new commits");
        assertThat(new TuneSummary(result, 1, 80).text()).startsWith("Up to date: no new commits.\nResults");
    }
}
