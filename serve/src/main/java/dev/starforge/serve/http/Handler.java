package dev.starforge.serve.http;

import java.io.IOException;
import java.util.Map;

/** Handles the requests of a server; called concurrently by the threads of all connections. */
public interface Handler {
    /**
     * Called before the body is read, so that unauthorized requests are cheap.
     *
     * @return closed after the response
     */
    Permit admit(RequestHead head);

    /** Handles a request; must have responded when it returns. */
    void handle(Exchange exchange) throws IOException;

    /** The response for a failed request. */
    ErrorResponse describe(RequestHead head, HttpException e);

    /** The response for a request whose head could not be parsed. */
    ErrorResponse describe(HttpException e);

    record ErrorResponse(byte[] json, Map<String, String> headers) {}

    /** Counts against the limit of concurrent requests. */
    @FunctionalInterface
    interface Permit extends AutoCloseable {
        @Override
        void close();
    }
}
