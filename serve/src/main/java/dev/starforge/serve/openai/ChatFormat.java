package dev.starforge.serve.openai;

import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.openai.ToolParser.ToolCall;
import java.util.List;
import java.util.function.Supplier;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * {@code /v1/chat/completions}.
 *
 * @param ids generates the ids of tool calls
 */
record ChatFormat(TokenLogprobs tokens, ToolFormat tools, Supplier<String> ids) implements CompletionFormat {
    @Override
    public String idPrefix() {
        return "chatcmpl-";
    }

    @Override
    public String object(boolean streamed) {
        return streamed ? "chat.completion.chunk" : "chat.completion";
    }

    @Override
    public void whole(ObjectNode choice, String text, List<ToolCall> calls) {
        ObjectNode message = choice.putObject("message").put("role", "assistant");
        if (text.isEmpty() && !calls.isEmpty()) {
            message.putNull("content");
        } else {
            message.put("content", text);
        }
        message.putNull("refusal");
        if (!calls.isEmpty()) {
            put(message.putArray("tool_calls"), calls, false);
        }
    }

    @Override
    public void calls(ObjectNode choice, List<ToolCall> calls) {
        put(choice.putObject("delta").putArray("tool_calls"), calls, true);
    }

    private void put(ArrayNode list, List<ToolCall> calls, boolean numbered) {
        for (int i = 0; i < calls.size(); i++) {
            ObjectNode call = list.addObject();
            if (numbered) {
                call.put("index", i);
            }
            call.put("id", "call_" + ids.get()).put("type", "function");
            call.putObject("function")
                    .put("name", calls.get(i).name())
                    .put("arguments", calls.get(i).arguments());
        }
    }

    @Override
    public boolean opening(ObjectNode choice, int sequence) {
        choice.putObject("delta").put("role", "assistant").put("content", "");
        return true;
    }

    @Override
    public void part(ObjectNode choice, String text) {
        ObjectNode delta = choice.putObject("delta");
        if (!text.isEmpty()) {
            delta.put("content", text);
        }
    }

    @Override
    public ObjectNode logprobs(List<GeneratedToken> chosen, int offset) {
        return tokens.chat(chosen);
    }
}
