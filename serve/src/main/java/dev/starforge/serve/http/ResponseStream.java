package dev.starforge.serve.http;

import java.io.IOException;

/** An answer under way. What is written is on the wire when the call returns; without {@link #finish} it ends torn. */
public interface ResponseStream {
    void write(byte[] bytes) throws IOException;

    void finish() throws IOException;
}
