package dev.starforge.api;

import dev.starforge.api.server.ModelServer;
import java.net.URI;

/**
 * A model served over HTTP: the OpenAI-compatible API, {@code /infill} and the web UI. {@link Starforge#serve} starts it. It runs on
 * threads of its own.
 */
public final class CodeModelServer implements AutoCloseable {
    private final ModelServer server;

    CodeModelServer(ModelServer server) {
        this.server = server;
    }

    /**
     * Returns the address of the server.
     *
     * @return an http URI with the port that the server listens on
     */
    public URI uri() {
        return server.uri();
    }

    /** Rejects new requests, waits up to 30 seconds for running ones, and stops listening. */
    public void drain() {
        server.drain();
    }

    /** Stops at once, and frees the model and its device. */
    @Override
    public void close() {
        server.close();
    }
}
