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
 * The log of a worker: who did what to what, one line for each. Lines are JSON objects for programs, or plain for a terminal.
 * Prompts and answers never come here, only their lengths and hashes; keys are struck out wherever they stand.
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

    private static final String STRUCK = "[redacted]";

    private final Consumer<String> lines;
    private final LogFormat form;
    private final LogLevel least;
    private final Clock clock;
    private final List<String> secrets;
    private final Map<String, String> always;

    /**
     * @param lines takes each line, without its end
     * @param secrets texts that no line may have, such as the worker's own keys
     * @param always fields of every line, such as {@code worker_id}
     */
    public EventLog(
            Consumer<String> lines,
            LogFormat form,
            LogLevel least,
            Clock clock,
            List<String> secrets,
            Map<String, String> always) {
        this.lines = lines;
        this.form = form;
        this.least = least;
        this.clock = clock;
        this.secrets = secrets.stream().filter(secret -> !secret.isEmpty()).toList();
        this.always = new LinkedHashMap<>(always);
    }

    /** A log that nobody reads. */
    public static EventLog silent() {
        return new EventLog(_ -> {}, LogFormat.PLAIN, LogLevel.ERROR, Clock.systemUTC(), List.of(), Map.of());
    }

    /** Begins a line: {@code actor} did {@code action} to {@code target}. */
    public LogLine line(LogLevel level, String actor, String action, String target) {
        return new LogLine(level, actor, action, target);
    }

    /** One line in the making; fields that have no value are left out. */
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
            fields.putAll(always);
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

        /** Writes the line, with a sentence for people. */
        public void log(String human) {
            if (level.compareTo(least) < 0) {
                return;
            }
            fields.put("human", human);
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

    /** Without what moves a terminal's cursor: clients choose some of these texts. */
    private String oneLine(@Nullable Object value) {
        return redacted(String.valueOf(value)).replaceAll("\\p{Cntrl}", " ");
    }

    private String redacted(String text) {
        String clean = text;
        for (String secret : secrets) {
            clean = clean.replace(secret, STRUCK);
        }
        List<SecretFinding> found = SecretScanner.scan(clean);
        StringBuilder out = new StringBuilder();
        int from = 0;
        for (SecretFinding finding : found) {
            if (finding.from() >= from) {
                out.append(clean, from, finding.from()).append(STRUCK);
                from = finding.to();
            }
        }
        return out.append(clean, from, clean.length()).toString();
    }
}
