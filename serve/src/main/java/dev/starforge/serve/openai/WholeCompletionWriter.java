package dev.starforge.serve.openai;

import dev.starforge.serve.api.Call;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.GenerationWriter;
import dev.starforge.serve.openai.OpenAiResponse.Choice;
import java.io.IOException;
import java.util.List;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Writes all choices as one JSON object. */
final class WholeCompletionWriter implements GenerationWriter {
    private final OpenAiResponse response;
    private final Call call;
    private final List<Choice> choices;

    WholeCompletionWriter(OpenAiResponse response, Call call, int sequences) {
        this.response = response;
        this.call = call;
        choices = response.choices(sequences);
    }

    @Override
    public void delta(GenerationEvent.Delta delta) {
        Choice choice = choices.get(delta.sequence());
        choice.text.append(choice.parser.push(delta.text()));
        choice.tokens.addAll(delta.tokens());
    }

    @Override
    public void finished(GenerationEvent.Finished finished) {
        Choice choice = choices.get(finished.sequence());
        choice.finish(finished);
        choice.text.append(choice.rest);
    }

    @Override
    public void failed(GenerationEvent.Failed failed) {
        throw failed.exception();
    }

    @Override
    public void complete() throws IOException {
        ObjectNode body = response.envelope(false);
        ArrayNode list = body.putArray("choices");
        for (int i = 0; i < choices.size(); i++) {
            Choice choice = choices.get(i);
            ObjectNode node = list.addObject().put("index", i);
            response.format().whole(node, choice.text.toString(), choice.calls);
            response.putLogprobs(node, choice.tokens, 0);
            node.put("finish_reason", choice.finishReason);
        }
        body.set("usage", response.usage(choices));
        call.respond(200, body);
    }
}
