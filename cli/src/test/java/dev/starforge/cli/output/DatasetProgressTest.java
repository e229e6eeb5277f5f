package dev.starforge.cli.output;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;

/** A bar where a person looks, lines where a program does. */
final class DatasetProgressTest {
    private final StringWriter written = new StringWriter();
    private long now;

    private DatasetProgress bar(boolean terminal) {
        return new DatasetProgress(new ProgressBar(new PrintWriter(written), terminal, () -> 140), () -> now);
    }

    private static String lastLine(String shown) {
        return shown.substring(shown.lastIndexOf("\r\u001b[K") + 4);
    }

    @Test
    void aTerminalGetsABarWithRateAndTimeLeft() {
        DatasetProgress bar = bar(true);
        bar.begin("history", 1000);
        for (int i = 0; i < 250; i++) {
            now += 40_000_000;
            bar.advance();
        }
        // 250 of 1000 in 10 s; the bar was last drawn one or two steps ago
        assertThat(lastLine(written.toString())).matches("history    █{7}░{23}  2[45]% 2[45]\\d/1000 25/s, 30 s left");
        bar.begin("leaks", 0);
        assertThat(lastLine(written.toString())).isEqualTo("leaks…");
        bar.message("A sentence.");
        bar.finish();
        assertThat(written.toString()).contains("\r\u001b[KA sentence.").endsWith("\r\u001b[K");
    }

    @Test
    void longWorkIsInMinutes() {
        DatasetProgress bar = bar(true);
        bar.begin("chunks", 100);
        now += 10_000_000_000L;
        bar.advance();
        assertThat(lastLine(written.toString())).endsWith("1/100 0.1/s, 16 min 30 s left");
    }

    @Test
    void aPipeGetsALineForEachStageAndEveryTenSeconds() {
        DatasetProgress bar = bar(false);
        bar.begin("history", 12);
        for (int i = 0; i < 12; i++) {
            now += 1_000_000_000;
            bar.advance();
        }
        bar.begin("leaks", 0);
        bar.finish();
        assertThat(written.toString())
                .isEqualTo(String.format("history: 12%nhistory: 11 of 12, 1.0/s, 1.0 s left%nleaks%n"));
    }
}
