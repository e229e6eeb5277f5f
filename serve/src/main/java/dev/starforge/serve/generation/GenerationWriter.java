package dev.starforge.serve.generation;

import java.io.IOException;

/** Writes the events of one request as the response of one API; see {@link ActiveRequest#writeTo}. */
public interface GenerationWriter {
    void delta(GenerationEvent.Delta delta) throws IOException;

    void finished(GenerationEvent.Finished finished) throws IOException;

    /** A sequence failed, which ends the request; {@link #complete} follows unless this throws. */
    void failed(GenerationEvent.Failed failed) throws IOException;

    /** Called after the last event. */
    void complete() throws IOException;
}
