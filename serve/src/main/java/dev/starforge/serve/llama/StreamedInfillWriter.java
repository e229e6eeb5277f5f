package dev.starforge.serve.llama;

import dev.starforge.serve.api.Call;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.GenerationWriter;
import dev.starforge.text.json.Jackson;
import java.io.IOException;

/** Writes each delta as a server-sent event. */
final class StreamedInfillWriter implements GenerationWriter {
    private final InfillResponse response;
    private final Call.Events events;
    private final boolean[] hasNewLine;

    /** Begins the stream. */
    StreamedInfillWriter(InfillResponse response, Call call, int sequences) throws IOException {
        this.response = response;
        events = call.events();
        hasNewLine = new boolean[sequences];
    }

    @Override
    public void delta(GenerationEvent.Delta delta) throws IOException {
        hasNewLine[delta.sequence()] |= delta.text().contains("\n");
        events.send(Jackson.object()
                .put("index", delta.sequence())
                .put("content", delta.text())
                .put("stop", false));
    }

    @Override
    public void finished(GenerationEvent.Finished finished) throws IOException {
        events.send(response.result(finished, "", hasNewLine[finished.sequence()]));
    }

    @Override
    public void failed(GenerationEvent.Failed failed) throws IOException {
        events.send(failed.json());
    }

    @Override
    public void complete() throws IOException {
        events.finish();
    }
}
