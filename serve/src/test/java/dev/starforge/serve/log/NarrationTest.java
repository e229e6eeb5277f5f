package dev.starforge.serve.log;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.log.Narration.Form;
import dev.starforge.serve.log.Narration.Level;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class NarrationTest {
    private final List<String> lines = new ArrayList<>();

    private Narration narration(Form form, Level least) {
        Clock clock = Clock.fixed(Instant.parse("2026-01-02T03:04:05.678901Z"), ZoneOffset.UTC);
        return new Narration(lines::add, form, least, clock, List.of("hunter2hunter2"), Map.of("worker_id", "w"));
    }

    @Test
    void oneObjectALine() {
        narration(Form.JSON, Level.INFO)
                .line(Level.INFO, "worker", "finished", "job")
                .with("job_id", "j")
                .with("tokens_out", 3)
                .with("error_kind", "")
                .say("two\nlines");
        assertThat(lines)
                .containsExactly("{\"time\":\"2026-01-02T03:04:05.678Z\",\"level\":\"info\",\"actor\":\"worker\","
                        + "\"action\":\"finished\",\"target\":\"job\",\"worker_id\":\"w\",\"job_id\":\"j\",\"tokens_out\":3,"
                        + "\"human\":\"two\\nlines\"}");
    }

    @Test
    void plainLinesForATerminal() {
        narration(Form.PLAIN, Level.INFO)
                .line(Level.WARN, "http", "refused", "GET")
                .with("status", 401)
                .with("job_id", "a\r\u001b[2Jb")
                .say("no\nkey");
        assertThat(lines)
                .containsExactly("2026-01-02T03:04:05.678Z WARN http: no key worker_id=w status=401 job_id=a  [2Jb");
    }

    @Test
    void levelsBelowTheLeastAreSilent() {
        Narration narration = narration(Form.JSON, Level.WARN);
        narration.line(Level.DEBUG, "a", "b", "c").say("d");
        narration.line(Level.INFO, "a", "b", "c").say("d");
        narration.line(Level.ERROR, "a", "b", "c").say("d");
        assertThat(lines).hasSize(1);
    }

    @Test
    void secretsAreStruckOutWhereverTheyStand() {
        for (Form form : Form.values()) {
            narration(form, Level.INFO)
                    .line(Level.INFO, "a", "b", "key hunter2hunter2")
                    .with("job_id", "x-hunter2hunter2-y")
                    .say("with Authorization: Bearer q7Hs9Kd02mZx81LpVt4W and hunter2hunter2");
        }
        assertThat(lines)
                .hasSize(2)
                .allMatch(line -> line.contains("[redacted]"))
                .noneMatch(line -> line.contains("hunter2") || line.contains("q7Hs9"));
    }
}
