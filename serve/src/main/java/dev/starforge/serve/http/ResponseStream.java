package dev.starforge.serve.http;

import java.io.IOException;

/** A streamed response. Each write is sent before it returns; without {@link #finish} the response is truncated. */
public interface ResponseStream {
    void write(byte[] bytes) throws IOException;

    void finish() throws IOException;
}
