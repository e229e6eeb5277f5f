package dev.starforge.serve.llama;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.Timings;
import dev.starforge.serve.generation.Usage;
import dev.starforge.text.json.Jackson;
import java.util.List;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The result of a sequence as llama-server reports it.
 *
 * @param truncated whether the prompt was truncated
 * @param responseFields paths such as {@code timings/prompt_n}: only these are returned, under that name; empty returns all
 */
record InfillResponse(String model, boolean truncated, List<String> responseFields) {
    ObjectNode result(GenerationEvent.Finished finished, String text, boolean hasNewLine) {
        Usage usage = finished.usage();
        ObjectNode result = Jackson.object();
        result.put("index", finished.sequence());
        result.put("content", text);
        result.put("stop", true);
        result.put("model", model);
        result.put("tokens_predicted", usage.completionTokens());
        result.put("tokens_evaluated", usage.promptTokens());
        result.put("has_new_line", hasNewLine);
        result.put("truncated", truncated);
        result.put("stop_type", stopType(finished.reason()));
        result.put("stopping_word", finished.stopSequence());
        result.put("tokens_cached", usage.promptTokens() + usage.completionTokens());
        result.set("timings", timings(usage, finished.timings()));
        return select(result);
    }

    private static String stopType(StopReason reason) {
        return switch (reason) {
            case EOS -> "eos";
            case MAX_TOKENS -> "limit";
            case STOP_SEQUENCE -> "word";
        };
    }

    private static ObjectNode timings(Usage usage, Timings timings) {
        ObjectNode node = Jackson.object();
        node.put("cache_n", usage.cachedTokens());
        double prefill = timings.timeToFirstToken().toNanos() / 1e6;
        put(node, "prompt", usage.promptTokens() - usage.cachedTokens(), prefill);
        put(node, "predicted", usage.completionTokens(), timings.decode().toNanos() / 1e6);
        return node;
    }

    private static void put(ObjectNode timings, String phase, int tokens, double millis) {
        timings.put(phase + "_n", tokens);
        timings.put(phase + "_ms", millis);
        timings.put(phase + "_per_token_ms", tokens == 0 ? 0 : millis / tokens);
        timings.put(phase + "_per_second", millis == 0 ? 0 : 1e3 * tokens / millis);
    }

    private ObjectNode select(ObjectNode result) {
        if (responseFields.isEmpty()) {
            return result;
        }
        ObjectNode selected = Jackson.object();
        for (String path : responseFields) {
            JsonNode value = result;
            for (String key : path.split("/", -1)) {
                value = value.path(key);
            }
            if (!value.isMissingNode()) {
                selected.set(path, value);
            }
        }
        return selected;
    }
}
