package dev.starforge.serve.openai;

import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.text.json.Jackson;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * Separates tool calls from text, incrementally: text is returned at once unless it may be the start of a call. A malformed call is
 * returned as text. One parser per choice.
 */
final class ToolParser {
    private static final String OPEN = "<tool_call>";
    private static final String CLOSE = "</tool_call>";

    private final ToolFormat format;
    private final StringBuilder held = new StringBuilder();
    private boolean inCall;
    private boolean isText;

    ToolParser(ToolFormat format) {
        this.format = format;
    }

    /** @param arguments JSON, as the model wrote it */
    record ToolCall(String name, String arguments) {}

    record Rest(String text, List<ToolCall> calls) {}

    /** Takes the next delta; returns the text that cannot be part of a call. */
    String push(String delta) {
        held.append(delta);
        return switch (format) {
            case NONE -> take(held.length());
            case QWEN -> beforeTag();
            case LLAMA3 -> unlessObject();
        };
    }

    private String beforeTag() {
        if (inCall) {
            return "";
        }
        int at = held.indexOf(OPEN);
        if (at >= 0) {
            inCall = true;
            return take(at);
        }
        int kept = Math.min(OPEN.length() - 1, held.length());
        while (!OPEN.startsWith(held.substring(held.length() - kept))) {
            kept--;
        }
        return take(held.length() - kept);
    }

    private String unlessObject() {
        String begun = held.toString().stripLeading();
        isText |= !begun.isEmpty() && begun.charAt(0) != '{';
        return isText ? take(held.length()) : "";
    }

    /** The rest of the text, or the calls. */
    Rest finish() {
        String rest = take(held.length());
        List<ToolCall> calls = switch (format) {
            case NONE -> List.of();
            case QWEN -> tagged(rest);
            case LLAMA3 -> call(rest).stream().toList();
        };
        return calls.isEmpty() ? new Rest(rest, calls) : new Rest("", calls);
    }

    /** All tagged calls; empty if one of them is malformed. */
    private static List<ToolCall> tagged(String text) {
        List<ToolCall> calls = new ArrayList<>();
        for (int at = text.indexOf(OPEN); at >= 0; at = text.indexOf(OPEN, at + 1)) {
            int end = text.indexOf(CLOSE, at);
            // a model may stop before the last closing tag
            Optional<ToolCall> call = call(text.substring(at + OPEN.length(), end < 0 ? text.length() : end));
            if (call.isEmpty()) {
                return List.of();
            }
            calls.add(call.get());
        }
        return calls;
    }

    private static Optional<ToolCall> call(String json) {
        try {
            JsonNode call = Jackson.JSON.readTree(json);
            JsonNode arguments = call.path(call.has("arguments") ? "arguments" : "parameters");
            return call.path("name").isString() && arguments.isObject()
                    ? Optional.of(new ToolCall(call.get("name").stringValue(), arguments.toString()))
                    : Optional.empty();
        } catch (JacksonException e) {
            return Optional.empty();
        }
    }

    private String take(int length) {
        String text = held.substring(0, length);
        held.delete(0, length);
        return text;
    }
}
