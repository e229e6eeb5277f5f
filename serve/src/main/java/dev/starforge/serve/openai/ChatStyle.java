package dev.starforge.serve.openai;

import dev.starforge.serve.engine.Token;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/** {@code /v1/chat/completions}. */
record ChatStyle(TokenText tokens) implements Style {
    @Override
    public String idPrefix() {
        return "chatcmpl-";
    }

    @Override
    public String object(boolean streamed) {
        return streamed ? "chat.completion.chunk" : "chat.completion";
    }

    @Override
    public void whole(ObjectNode choice, String text) {
        choice.putObject("message")
                .put("role", "assistant")
                .put("content", text)
                .putNull("refusal");
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
    public ObjectNode logprobs(List<Token> chosen, int offset) {
        return tokens.chat(chosen);
    }
}
