package dev.starforge.serve.llama;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.Tally;
import dev.starforge.serve.http.HttpException;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * An answer as llama-server gives it: one object for one choice, a list for several.
 *
 * @param truncated whether the prompt was cut
 * @param responseFields paths such as {@code timings/prompt_n}: only these, under just that name; empty is all
 */
record InfillAnswer(String model, boolean truncated, List<String> responseFields) {
    void whole(Call call, ActiveRequest run) throws IOException, InterruptedException {
        List<StringBuilder> texts = texts(run);
        ObjectNode[] results = new ObjectNode[run.size()];
        for (int open = run.size(); open > 0; ) {
            switch (run.next()) {
                case GenerationEvent.Delta piece -> texts.get(piece.sequence()).append(piece.text());
                case GenerationEvent.Finished finished -> {
                    String text = texts.get(finished.sequence()).toString();
                    results[finished.sequence()] = chosen(result(finished, text, text.contains("\n")));
                    open--;
                }
                case GenerationEvent.Failed failed ->
                    throw new HttpException(
                            failed.code().status(),
                            failed.code().name(),
                            failed.code().message());
            }
        }
        if (results.length == 1) {
            call.respond(200, results[0]);
            return;
        }
        ArrayNode list = Jackson.JSON.createArrayNode().addAll(List.of(results));
        call.respond(200, "application/json", list.toString().getBytes(StandardCharsets.UTF_8));
    }

    void stream(Call call, ActiveRequest run) throws IOException, InterruptedException {
        Call.Events events = call.events();
        boolean[] lines = new boolean[run.size()];
        for (int open = run.size(); open > 0; ) {
            switch (run.next()) {
                case GenerationEvent.Delta piece -> {
                    lines[piece.sequence()] |= piece.text().contains("\n");
                    events.send(Jackson.object()
                            .put("index", piece.sequence())
                            .put("content", piece.text())
                            .put("stop", false));
                }
                case GenerationEvent.Finished finished -> {
                    events.send(chosen(result(finished, "", lines[finished.sequence()])));
                    open--;
                }
                case GenerationEvent.Failed failed -> {
                    events.send(Api.error(
                            failed.code().status(),
                            failed.code().name(),
                            failed.code().message()));
                    open = 0;
                }
            }
        }
        events.finish();
    }

    private static List<StringBuilder> texts(ActiveRequest run) {
        List<StringBuilder> texts = new ArrayList<>();
        for (int i = 0; i < run.size(); i++) {
            texts.add(new StringBuilder());
        }
        return texts;
    }

    private ObjectNode result(GenerationEvent.Finished finished, String text, boolean hasLine) {
        Tally tally = finished.tally();
        ObjectNode result = Jackson.object();
        result.put("index", finished.sequence());
        result.put("content", text);
        result.put("stop", true);
        result.put("model", model);
        result.put("tokens_predicted", tally.tokens());
        result.put("tokens_evaluated", tally.promptTokens());
        result.put("has_new_line", hasLine);
        result.put("truncated", truncated);
        result.put("stop_type", stopType(finished.reason()));
        result.put("stopping_word", finished.stopSequence());
        result.put("tokens_cached", tally.promptTokens() + tally.tokens());
        result.set("timings", timings(tally));
        return result;
    }

    private static String stopType(StopReason reason) {
        return switch (reason) {
            case EOS -> "eos";
            case MAX_TOKENS -> "limit";
            case STOP_SEQUENCE -> "word";
        };
    }

    private static ObjectNode timings(Tally tally) {
        ObjectNode timings = Jackson.object();
        timings.put("cache_n", tally.cachedTokens());
        put(
                timings,
                "prompt",
                tally.promptTokens() - tally.cachedTokens(),
                tally.toFirst().toNanos() / 1e6);
        put(timings, "predicted", tally.tokens(), tally.decode().toNanos() / 1e6);
        return timings;
    }

    private static void put(ObjectNode timings, String phase, int tokens, double millis) {
        timings.put(phase + "_n", tokens);
        timings.put(phase + "_ms", millis);
        timings.put(phase + "_per_token_ms", tokens == 0 ? 0 : millis / tokens);
        timings.put(phase + "_per_second", millis == 0 ? 0 : 1e3 * tokens / millis);
    }

    private ObjectNode chosen(ObjectNode result) {
        if (responseFields.isEmpty()) {
            return result;
        }
        ObjectNode some = Jackson.object();
        for (String path : responseFields) {
            JsonNode value = result;
            for (String key : path.split("/", -1)) {
                value = value.path(key);
            }
            if (!value.isMissingNode()) {
                some.set(path, value);
            }
        }
        return some;
    }
}
