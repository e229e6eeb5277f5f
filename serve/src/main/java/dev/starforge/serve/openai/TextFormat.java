package dev.starforge.serve.openai;

import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.openai.ToolParser.ToolCall;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/**
 * {@code /v1/completions}.
 *
 * @param echoes the prompt before each text, for {@code echo}
 */
record TextFormat(TokenLogprobs tokens, List<String> echoes) implements CompletionFormat {
    @Override
    public String idPrefix() {
        return "cmpl-";
    }

    @Override
    public ToolFormat tools() {
        return ToolFormat.NONE;
    }

    @Override
    public String object(boolean streamed) {
        return "text_completion";
    }

    @Override
    public void whole(ObjectNode choice, String text, List<ToolCall> calls) {
        choice.put("text", echoes.get(choice.get("index").intValue()) + text);
    }

    @Override
    public void calls(ObjectNode choice, List<ToolCall> calls) {
        throw new IllegalStateException("completions: tool calls are not supported");
    }

    @Override
    public boolean opening(ObjectNode choice, int sequence) {
        choice.put("text", echoes.get(sequence));
        return !echoes.get(sequence).isEmpty();
    }

    @Override
    public void part(ObjectNode choice, String text) {
        choice.put("text", text);
    }

    @Override
    public ObjectNode logprobs(List<GeneratedToken> chosen, int offset) {
        return tokens.completion(chosen, offset);
    }
}
