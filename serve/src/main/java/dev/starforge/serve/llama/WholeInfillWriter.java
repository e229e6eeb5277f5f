package dev.starforge.serve.llama;

import dev.starforge.serve.api.Call;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.GenerationWriter;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Writes one JSON object for one sequence, an array for several. */
final class WholeInfillWriter implements GenerationWriter {
    private final InfillResponse response;
    private final Call call;
    private final List<StringBuilder> outputs = new ArrayList<>();
    private final ObjectNode[] results;

    WholeInfillWriter(InfillResponse response, Call call, int sequences) {
        this.response = response;
        this.call = call;
        for (int i = 0; i < sequences; i++) {
            outputs.add(new StringBuilder());
        }
        results = new ObjectNode[sequences];
    }

    @Override
    public void delta(GenerationEvent.Delta delta) {
        outputs.get(delta.sequence()).append(delta.text());
    }

    @Override
    public void finished(GenerationEvent.Finished finished) {
        String text = outputs.get(finished.sequence()).toString();
        results[finished.sequence()] = response.result(finished, text, text.contains("\n"));
    }

    @Override
    public void failed(GenerationEvent.Failed failed) {
        throw failed.exception();
    }

    @Override
    public void complete() throws IOException {
        if (results.length == 1) {
            call.respond(200, results[0]);
            return;
        }
        ArrayNode list = Jackson.JSON.createArrayNode().addAll(List.of(results));
        call.respond(200, "application/json", list.toString().getBytes(StandardCharsets.UTF_8));
    }
}
