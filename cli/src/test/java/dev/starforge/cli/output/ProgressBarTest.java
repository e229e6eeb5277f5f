package dev.starforge.cli.output;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** No line of a bar is wider than the terminal, so that it can be redrawn in place. */
final class ProgressBarTest {
    private static String drawn(int width, String stage, String... parts) {
        StringWriter written = new StringWriter();
        new ProgressBar(new PrintWriter(written), true, () -> width).draw(stage, 25, 100, parts);
        return written.toString().replace("\r\u001b[K", "");
    }

    private static final String[] TRAINING = {
        "step 25/100", "loss 1.2345", "3 min 20 s left", "1034 tokens/s", "lr 3.00e-03", "norm 0.123", "0.25 steps/s"
    };

    @ParameterizedTest
    @ValueSource(ints = {20, 40, 80, 100, 140})
    void fitsTheTerminal(int width) {
        assertThat(drawn(width, "train", TRAINING)).hasSizeLessThan(width).startsWith("train");
        assertThat(drawn(width, "a stage with a long name", "x".repeat(200))).hasSizeLessThan(width);
    }

    @Test
    void theMostImportantPartsStay() {
        assertThat(drawn(40, "train", TRAINING)).isEqualTo("train      ██░░░░░░░  25% step 25/100");
        assertThat(drawn(80, "train", TRAINING)).endsWith("25% step 25/100  loss 1.2345  3 min 20 s left");
        assertThat(drawn(140, "train", TRAINING)).endsWith("lr 3.00e-03  norm 0.123");
    }

    @Test
    void aTableThatIsTooWideHasLabelsOfTheirOwn() {
        List<List<String>> rows = List.of(
                List.of("", "base", "tuned"),
                List.of("exact match", "0.1234 [0.1, 0.2]", "0.2 [0.1, 0.3]"),
                List.of("f1", "0.5 [0.4, 0.6]", "0.6 [0.5, 0.7]"));
        assertThat(TextTable.lines(rows, 80))
                .containsExactly(
                        "             base               tuned",
                        "exact match  0.1234 [0.1, 0.2]  0.2 [0.1, 0.3]",
                        "f1           0.5 [0.4, 0.6]     0.6 [0.5, 0.7]");
        assertThat(TextTable.lines(rows, 40))
                .containsExactly(
                        "  base               tuned",
                        "exact match",
                        "  0.1234 [0.1, 0.2]  0.2 [0.1, 0.3]",
                        "f1",
                        "  0.5 [0.4, 0.6]     0.6 [0.5, 0.7]");
    }

    @Test
    void textIsBrokenBetweenWords() {
        assertThat(Terminal.wrap("ok data  ", "one two three four", 18))
                .isEqualTo(List.of("ok data  one two", "         three", "         four"));
        assertThat(Terminal.wrap("- ", "averyveryverylongword and", 12))
                .isEqualTo(List.of("- averyveryverylongword", "  and"));
        assertThat(Terminal.wrap("- ", "a b", Integer.MAX_VALUE)).isEqualTo(List.of("- a b"));
    }
}
