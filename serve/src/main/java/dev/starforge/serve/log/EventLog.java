package dev.starforge.serve.log;

import dev.starforge.text.json.Jackson;
import dev.starforge.text.secrets.SecretFinding;
import dev.starforge.text.secrets.SecretScanner;
import java.time.Clock;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.node.ObjectNode;

/**
 * The structured log of a worker or pool: one line per event, with actor, action and target, as JSON or as plain text. Prompts and
 * completions are never logged, only their lengths and hashes. Secrets are redacted.
 */
public final class EventLog {
    public enum LogLevel {
        DEBUG,
        INFO,
        WARN,
        ERROR
    }

    public enum LogFormat {
        JSON,
        PLAIN
    }

    private static final String REDACTED = "[redacted]";

    private final Consumer<String> lines;
    private final LogFormat form;
    private final LogLevel threshold;
    private final Clock clock;
    private final List<String> secrets;
    private final Map<String, String> common;

    /**
     * @param lines receives each line, without a line break
     * @param secrets strings to redact, such as API keys
     * @param common fields of every line, such as {@code worker_id}
     */
    public EventLog(
            Consumer<String> lines,
            LogFormat form,
            LogLevel threshold,
            Clock clock,
            List<String> secrets,
            Map<String, String> common) {
        this.lines = lines;
        this.form = form;
        this.threshold = threshold;
        this.clock = clock;
        this.secrets = secrets.stream().filter(secret -> !secret.isEmpty()).toList();
        this.common = new LinkedHashMap<>(common);
    }

    /** Discards all lines. */
    public static EventLog silent() {
        return new EventLog(_ -> {}, LogFormat.PLAIN, LogLevel.ERROR, Clock.systemUTC(), List.of(), Map.of());
    }

    /** Begins a line. */
    public LogLine line(LogLevel level, String actor, String action, String target) {
        return new LogLine(level, actor, action, target);
    }

    /** Builds one line; empty fields are omitted. */
    public final class LogLine {
        private final LogLevel level;
        private final Map<String, Object> fields = new LinkedHashMap<>();

        private LogLine(LogLevel level, String actor, String action, String target) {
            this.level = level;
            fields.put("time", clock.instant().truncatedTo(ChronoUnit.MILLIS).toString());
            fields.put("level", level.name().toLowerCase(Locale.ROOT));
            fields.put("actor", actor);
            fields.put("action", action);
            fields.put("target", target);
            fields.putAll(common);
        }

        public LogLine with(String field, String value) {
            if (!value.isEmpty()) {
                fields.put(field, value);
            }
            return this;
        }

        public LogLine with(String field, long value) {
            fields.put(field, value);
            return this;
        }

        /** Writes the line with a human-readable message. */
        public void log(String message) {
            if (level.compareTo(threshold) < 0) {
                return;
            }
            fields.put("human", message);
            lines.accept(form == LogFormat.JSON ? json() : plain());
        }

        private String json() {
            ObjectNode node = Jackson.object();
            fields.forEach((name, value) -> {
                switch (value) {
                    case Long number -> node.put(name, number);
                    default -> node.put(name, redacted(value.toString()));
                }
            });
            return node.toString();
        }

        private String plain() {
            StringBuilder text = new StringBuilder();
            text.append(fields.get("time"))
                    .append(' ')
                    .append(level)
                    .append(' ')
                    .append(fields.get("actor"));
            text.append(": ").append(oneLine(fields.get("human")));
            fields.forEach((name, value) -> {
                if (!List.of("time", "level", "actor", "action", "target", "human")
                        .contains(name)) {
                    text.append(' ').append(name).append('=').append(oneLine(value));
                }
            });
            return text.toString();
        }
    }

    /** Replaces control characters: some values are chosen by clients and could move the cursor of a terminal. */
    private String oneLine(@Nullable Object value) {
        return redacted(String.valueOf(value)).replaceAll("\\p{Cntrl}", " ");
    }

    private String redacted(String text) {
        String clean = text;
        for (String secret : secrets) {
            clean = clean.replace(secret, REDACTED);
        }
        List<SecretFinding> found = SecretScanner.scan(clean);
        StringBuilder out = new StringBuilder();
        int from = 0;
        for (SecretFinding finding : found) {
            if (finding.from() >= from) {
                out.append(clean, from, finding.from()).append(REDACTED);
                from = finding.to();
            }
        }
        return out.append(clean, from, clean.length()).toString();
    }
}
