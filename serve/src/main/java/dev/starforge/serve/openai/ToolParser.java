package dev.starforge.serve.openai;

import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.text.json.Jackson;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * Tells the calls of tools in an answer from its text, piece by piece: text leaves at once unless it may be the beginning of a
 * call. What looks like a call and is none after all is text. For one answer.
 */
final class ToolParser {
    private static final String OPEN = "<tool_call>";
    private static final String CLOSE = "</tool_call>";

    private final ToolFormat format;
    private final StringBuilder held = new StringBuilder();
    private boolean calling;
    private boolean talking;

    ToolParser(ToolFormat format) {
        this.format = format;
    }

    /** @param arguments JSON, as the model wrote it */
    record ToolCall(String name, String arguments) {}

    record Rest(String text, List<ToolCall> calls) {}

    /** Takes a piece; returns the text that is certain. */
    String push(String piece) {
        held.append(piece);
        return switch (format) {
            case NONE -> take(held.length());
            case QWEN -> beforeTag();
            case LLAMA3 -> unlessObject();
        };
    }

    private String beforeTag() {
        if (calling) {
            return "";
        }
        int at = held.indexOf(OPEN);
        if (at >= 0) {
            calling = true;
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
        talking |= !begun.isEmpty() && begun.charAt(0) != '{';
        return talking ? take(held.length()) : "";
    }

    /** What is left at the end. */
    Rest finish() {
        String rest = take(held.length());
        List<ToolCall> calls = switch (format) {
            case NONE -> List.of();
            case QWEN -> tagged(rest);
            case LLAMA3 -> call(rest).stream().toList();
        };
        return calls.isEmpty() ? new Rest(rest, calls) : new Rest("", calls);
    }

    /** All calls of a text of nothing else; none if one of them is not right. */
    private static List<ToolCall> tagged(String text) {
        List<ToolCall> calls = new ArrayList<>();
        for (int at = text.indexOf(OPEN); at >= 0; at = text.indexOf(OPEN, at + 1)) {
            int end = text.indexOf(CLOSE, at);
            // a model that stops with the call may leave the last tag out
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
        } catch (JacksonException none) {
            return Optional.empty();
        }
    }

    private String take(int length) {
        String text = held.substring(0, length);
        held.delete(0, length);
        return text;
    }
}
