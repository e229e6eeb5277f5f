package dev.starforge.serve.http;

import java.io.IOException;
import java.util.Map;

/** Handles the requests of a server; called concurrently by the threads of all connections. */
public interface Handler {
    /** Called before the body is read: rejects what can be rejected by the head alone, such as requests without a key. */
    void admit(RequestHead head);

    /** Returns true if the request is served even when all connections are in use, such as a health check. */
    default boolean isEssential(RequestHead head) {
        return false;
    }

    /** Handles a request; must have responded when it returns. */
    void handle(Exchange exchange) throws IOException;

    /** The response for a failed request. */
    ErrorResponse describe(RequestHead head, HttpException e);

    /** The response for a request whose head could not be parsed. */
    ErrorResponse describe(HttpException e);

    record ErrorResponse(byte[] json, Map<String, String> headers) {}
}
