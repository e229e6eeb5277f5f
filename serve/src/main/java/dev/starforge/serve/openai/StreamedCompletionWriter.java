package dev.starforge.serve.openai;

import dev.starforge.serve.api.Call;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.GenerationWriter;
import dev.starforge.serve.openai.OpenAiResponse.Choice;
import java.io.IOException;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/** Writes each delta as a server-sent event. */
final class StreamedCompletionWriter implements GenerationWriter {
    private final OpenAiResponse response;
    private final Call.Events events;
    private final List<Choice> choices;
    private boolean failed;

    /** Begins the stream. */
    StreamedCompletionWriter(OpenAiResponse response, Call call, int sequences) throws IOException {
        this.response = response;
        events = call.events();
        choices = response.choices(sequences);
        for (int i = 0; i < sequences; i++) {
            ObjectNode body = response.envelope(true);
            ObjectNode node = choice(body, i);
            if (response.format().opening(node, i)) {
                send(body, node, "");
            }
        }
    }

    /** A token without text waits for the token that completes its text. */
    @Override
    public void delta(GenerationEvent.Delta delta) throws IOException {
        Choice choice = choices.get(delta.sequence());
        choice.tokens.addAll(delta.tokens());
        sendText(delta.sequence(), choice.parser.push(delta.text()));
    }

    @Override
    public void finished(GenerationEvent.Finished finished) throws IOException {
        int index = finished.sequence();
        Choice choice = choices.get(index);
        choice.finish(finished);
        sendText(index, choice.rest);
        if (!choice.calls.isEmpty()) {
            ObjectNode body = response.envelope(true);
            ObjectNode node = choice(body, index);
            response.format().calls(node, choice.calls);
            send(body, node, "");
        }
        ObjectNode body = response.envelope(true);
        ObjectNode node = choice(body, index);
        response.format().part(node, "");
        response.putLogprobs(node, choice.tokens, choice.text.length());
        send(body, node, choice.finishReason);
    }

    private void sendText(int index, String text) throws IOException {
        if (!text.isEmpty()) {
            Choice choice = choices.get(index);
            ObjectNode body = response.envelope(true);
            ObjectNode node = choice(body, index);
            response.format().part(node, text);
            response.putLogprobs(node, choice.tokens, choice.text.length());
            choice.text.append(text);
            choice.tokens.clear();
            send(body, node, "");
        }
    }

    @Override
    public void failed(GenerationEvent.Failed event) throws IOException {
        failed = true;
        events.send(event.json());
    }

    @Override
    public void complete() throws IOException {
        if (response.includeUsage() && !failed) {
            ObjectNode body = response.envelope(true);
            body.putArray("choices");
            body.set("usage", response.usage(choices));
            events.send(body);
        }
        events.send("[DONE]");
        events.finish();
    }

    private static ObjectNode choice(ObjectNode body, int index) {
        return body.putArray("choices").addObject().put("index", index);
    }

    /** Sends a chunk with the last fields of its choice. */
    private void send(ObjectNode body, ObjectNode choice, String finishReason) throws IOException {
        if (!choice.has("logprobs")) {
            choice.putNull("logprobs");
        }
        if (finishReason.isEmpty()) {
            choice.putNull("finish_reason");
        } else {
            choice.put("finish_reason", finishReason);
        }
        if (response.includeUsage()) {
            body.putNull("usage");
        }
        events.send(body);
    }
}
