package dev.starforge.serve.openai;

import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.Tally;
import dev.starforge.serve.http.HttpException;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * An answer of OpenAI's APIs, whole or streamed, one choice for each sequence.
 *
 * @param created in seconds since 1970
 * @param logprobs whether they were asked for
 * @param includeUsage whether a stream ends with its usage
 * @param tools how calls of tools look, if there are tools to call
 * @param prompts how many different prompts there are; each has as many choices in a row
 */
record Answer(
        CompletionFormat style,
        String id,
        long created,
        String model,
        boolean logprobs,
        boolean includeUsage,
        int prompts,
        ToolFormat tools) {

    /** Waits for all choices, and answers. */
    void whole(Call call, ActiveRequest run) throws IOException, InterruptedException {
        List<Choice> choices = choices(run);
        for (int open = run.size(); open > 0; ) {
            switch (run.next()) {
                case GenerationEvent.Delta piece ->
                    choices.get(piece.sequence()).add(piece);
                case GenerationEvent.Finished finished -> {
                    Choice done = choices.get(finished.sequence());
                    done.finish(finished);
                    done.text.append(done.rest);
                    open--;
                }
                case GenerationEvent.Failed failed ->
                    throw new HttpException(
                            failed.code().status(),
                            failed.code().name(),
                            failed.code().message());
            }
        }
        ObjectNode body = envelope(false);
        ArrayNode list = body.putArray("choices");
        for (int i = 0; i < choices.size(); i++) {
            Choice done = choices.get(i);
            ObjectNode choice = list.addObject().put("index", i);
            style.whole(choice, done.text.toString(), done.calls);
            putLogprobs(choice, done.tokens, 0);
            choice.put("finish_reason", done.reason);
        }
        body.set("usage", usage(choices));
        call.respond(200, body);
    }

    /** Answers piece by piece. */
    void stream(Call call, ActiveRequest run) throws IOException, InterruptedException {
        Call.Events events = call.events();
        List<Choice> choices = choices(run);
        for (int i = 0; i < choices.size(); i++) {
            ObjectNode body = chunk();
            ObjectNode choice = choice(body, i);
            if (style.opening(choice, i)) {
                events.send(closed(choice, body, ""));
            }
        }
        for (int open = run.size(); open > 0; ) {
            switch (run.next()) {
                case GenerationEvent.Delta piece -> send(events, choices.get(piece.sequence()), piece);
                case GenerationEvent.Finished finished -> {
                    choices.get(finished.sequence()).finish(finished);
                    finish(events, choices.get(finished.sequence()), finished.sequence());
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
        if (includeUsage && choices.stream().noneMatch(choice -> choice.reason.isEmpty())) {
            ObjectNode body = envelope(true);
            body.putArray("choices");
            body.set("usage", usage(choices));
            events.send(body);
        }
        events.send("[DONE]");
        events.finish();
    }

    /** A token without text of its own waits for the one that completes it. */
    private void send(Call.Events events, Choice choice, GenerationEvent.Delta piece) throws IOException {
        choice.waiting.addAll(piece.tokens());
        send(events, choice, piece.sequence(), choice.parser.push(piece.text()));
    }

    private void send(Call.Events events, Choice choice, int sequence, String text) throws IOException {
        if (!text.isEmpty()) {
            ObjectNode body = chunk();
            ObjectNode part = choice(body, sequence);
            style.part(part, text);
            putLogprobs(part, choice.waiting, choice.text.length());
            choice.text.append(text);
            choice.waiting.clear();
            events.send(closed(part, body, ""));
        }
    }

    private void finish(Call.Events events, Choice choice, int sequence) throws IOException {
        send(events, choice, sequence, choice.rest);
        if (!choice.calls.isEmpty()) {
            ObjectNode body = chunk();
            ObjectNode part = choice(body, sequence);
            style.calls(part, choice.calls);
            events.send(closed(part, body, ""));
        }
        ObjectNode body = chunk();
        ObjectNode part = choice(body, sequence);
        style.part(part, "");
        putLogprobs(part, choice.waiting, choice.text.length());
        events.send(closed(part, body, choice.reason));
    }

    private static final class Choice {
        private final StringBuilder text = new StringBuilder();
        private final List<GeneratedToken> tokens = new ArrayList<>();
        private final List<GeneratedToken> waiting = new ArrayList<>();
        private final ToolParser parser;
        private List<ToolParser.ToolCall> calls = List.of();
        private String rest = "";
        private String reason = "";
        private Tally tally = new Tally(0, 0, 0, Duration.ZERO, Duration.ZERO);

        Choice(ToolFormat format) {
            parser = new ToolParser(format);
        }

        void add(GenerationEvent.Delta piece) {
            text.append(parser.push(piece.text()));
            tokens.addAll(piece.tokens());
        }

        void finish(GenerationEvent.Finished finished) {
            ToolParser.Rest left = parser.finish();
            rest = left.text();
            calls = left.calls();
            reason = finished.reason() == StopReason.MAX_TOKENS ? "length" : calls.isEmpty() ? "stop" : "tool_calls";
            tally = finished.tally();
        }
    }

    private List<Choice> choices(ActiveRequest run) {
        List<Choice> choices = new ArrayList<>();
        for (int i = 0; i < run.size(); i++) {
            choices.add(new Choice(tools));
        }
        return choices;
    }

    private ObjectNode envelope(boolean streamed) {
        return Jackson.object()
                .put("id", id)
                .put("object", style.object(streamed))
                .put("created", created)
                .put("model", model);
    }

    private ObjectNode chunk() {
        return envelope(true);
    }

    private static ObjectNode choice(ObjectNode body, int index) {
        return body.putArray("choices").addObject().put("index", index);
    }

    /** A chunk with the last fields of its choice. */
    private ObjectNode closed(ObjectNode choice, ObjectNode body, String reason) {
        if (!choice.has("logprobs")) {
            choice.putNull("logprobs");
        }
        if (reason.isEmpty()) {
            choice.putNull("finish_reason");
        } else {
            choice.put("finish_reason", reason);
        }
        if (includeUsage) {
            body.putNull("usage");
        }
        return body;
    }

    private void putLogprobs(ObjectNode choice, List<GeneratedToken> tokens, int offset) {
        if (logprobs && !tokens.isEmpty()) {
            choice.set("logprobs", style.logprobs(tokens, offset));
        } else {
            choice.putNull("logprobs");
        }
    }

    /** A prompt counts once, however many answers it was to have. */
    private ObjectNode usage(List<Choice> choices) {
        int each = choices.size() / prompts;
        int prompt = 0;
        int cached = 0;
        int completion = 0;
        for (int i = 0; i < choices.size(); i++) {
            Tally tally = choices.get(i).tally;
            prompt += i % each == 0 ? tally.promptTokens() : 0;
            cached += i % each == 0 ? tally.cachedTokens() : 0;
            completion += tally.tokens();
        }
        return usage(prompt, cached, completion);
    }

    static ObjectNode usage(int prompt, int cached, int completion) {
        ObjectNode usage = Jackson.object();
        usage.put("prompt_tokens", prompt);
        usage.put("completion_tokens", completion);
        usage.put("total_tokens", prompt + completion);
        usage.putObject("prompt_tokens_details").put("cached_tokens", cached);
        return usage;
    }
}
