package dev.starforge.serve.openai;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.Usage;
import dev.starforge.text.json.Jackson;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import tools.jackson.databind.node.ObjectNode;

/**
 * The parts that a whole and a streamed response of OpenAI's APIs have in common. Each sequence is one choice.
 *
 * @param created in seconds since 1970
 * @param logprobs whether log probabilities were requested
 * @param includeUsage whether a stream ends with its usage
 * @param prompts number of prompts; the choices of a prompt are consecutive
 */
record OpenAiResponse(
        CompletionFormat format,
        String id,
        long created,
        String model,
        boolean logprobs,
        boolean includeUsage,
        int prompts) {

    /** The state of one choice while its events arrive. */
    static final class Choice {
        final StringBuilder text = new StringBuilder();
        final List<GeneratedToken> tokens = new ArrayList<>();
        final ToolParser parser;
        List<ToolParser.ToolCall> calls = List.of();
        String rest = "";
        String finishReason = "";
        Usage usage = Usage.NONE;

        Choice(ToolParser parser) {
            this.parser = parser;
        }

        void finish(GenerationEvent.Finished finished) {
            ToolParser.Rest left = parser.finish();
            rest = left.text();
            calls = left.calls();
            boolean length = finished.reason() == StopReason.MAX_TOKENS;
            finishReason = length ? "length" : calls.isEmpty() ? "stop" : "tool_calls";
            usage = finished.usage();
        }
    }

    List<Choice> choices(int count) {
        return IntStream.range(0, count)
                .mapToObj(_ -> new Choice(new ToolParser(format.tools())))
                .toList();
    }

    ObjectNode envelope(boolean streamed) {
        return Jackson.object()
                .put("id", id)
                .put("object", format.object(streamed))
                .put("created", created)
                .put("model", model);
    }

    /** Puts the log probabilities of {@code tokens}; null if none were requested. */
    void putLogprobs(ObjectNode choice, List<GeneratedToken> tokens, int offset) {
        if (logprobs && !tokens.isEmpty()) {
            choice.set("logprobs", format.logprobs(tokens, offset));
        } else {
            choice.putNull("logprobs");
        }
    }

    /** The usage of all choices. The tokens of a prompt count once. */
    ObjectNode usage(List<Choice> choices) {
        int choicesPerPrompt = choices.size() / prompts;
        int prompt = 0;
        int cached = 0;
        int completion = 0;
        for (int i = 0; i < choices.size(); i++) {
            Usage usage = choices.get(i).usage;
            prompt += i % choicesPerPrompt == 0 ? usage.promptTokens() : 0;
            cached += i % choicesPerPrompt == 0 ? usage.cachedTokens() : 0;
            completion += usage.completionTokens();
        }
        ObjectNode body = Jackson.object();
        body.put("prompt_tokens", prompt);
        body.put("completion_tokens", completion);
        body.put("total_tokens", prompt + completion);
        body.putObject("prompt_tokens_details").put("cached_tokens", cached);
        return body;
    }
}
