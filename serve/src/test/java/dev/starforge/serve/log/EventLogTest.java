package dev.starforge.serve.log;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.log.EventLog.LogFormat;
import dev.starforge.serve.log.EventLog.LogLevel;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class EventLogTest {
    private final List<String> lines = new ArrayList<>();

    private EventLog narration(LogFormat form, LogLevel least) {
        Clock clock = Clock.fixed(Instant.parse("2026-01-02T03:04:05.678901Z"), ZoneOffset.UTC);
        return new EventLog(lines::add, form, least, clock, List.of("hunter2hunter2"), Map.of("worker_id", "w"));
    }

    @Test
    void oneJsonObjectPerLine() {
        narration(LogFormat.JSON, LogLevel.INFO)
                .line(LogLevel.INFO, "worker", "finished", "job")
                .with("job_id", "j")
                .with("tokens_out", 3)
                .with("error_kind", "")
                .log("two\nlines");
        assertThat(lines)
                .containsExactly(
                        "{\"time\":\"2026-01-02T03:04:05.678Z\",\"level\":\"info\",\"actor\":\"worker\",\"action\":\"finished\",\"target\":\"job\",\"worker_id\":\"w\",\"job_id\":\"j\",\"tokens_out\":3,\"human\":\"two\\n"
                                + "lines\"}");
    }

    @Test
    void plainLinesForATerminal() {
        narration(LogFormat.PLAIN, LogLevel.INFO)
                .line(LogLevel.WARN, "http", "refused", "GET")
                .with("status", 401)
                .with("job_id", "a\r\u001b[2Jb")
                .log("no\nkey");
        assertThat(lines)
                .containsExactly("2026-01-02T03:04:05.678Z WARN http: no key worker_id=w status=401 job_id=a  [2Jb");
    }

    @Test
    void levelsBelowTheThresholdAreNotLogged() {
        EventLog narration = narration(LogFormat.JSON, LogLevel.WARN);
        narration.line(LogLevel.DEBUG, "a", "b", "c").log("d");
        narration.line(LogLevel.INFO, "a", "b", "c").log("d");
        narration.line(LogLevel.ERROR, "a", "b", "c").log("d");
        assertThat(lines).hasSize(1);
    }

    @Test
    void secretsAreRedacted() {
        for (LogFormat form : LogFormat.values()) {
            narration(form, LogLevel.INFO)
                    .line(LogLevel.INFO, "a", "b", "key hunter2hunter2")
                    .with("job_id", "x-hunter2hunter2-y")
                    .log("with Authorization: Bearer q7Hs9Kd02mZx81LpVt4W and hunter2hunter2");
        }
        assertThat(lines)
                .hasSize(2)
                .allMatch(line -> line.contains("[redacted]"))
                .noneMatch(line -> line.contains("hunter2") || line.contains("q7Hs9"));
    }
}
