package dev.starforge.serve.http;

import java.io.IOException;
import java.util.Map;

/** What a server does with requests; called by many threads at once, one for each connection. */
public interface Handler {
    /**
     * Asked before a body is read, so that a client without a right to be heard costs nothing.
     *
     * @return given back when the request is answered
     */
    Permit admit(RequestHead head);

    /** Answers a request; what it has not answered when it returns is an error. */
    void handle(Exchange exchange) throws IOException;

    /** The body of an error, JSON, and the headers that go with it. */
    ErrorResponse describe(RequestHead head, HttpException failure);

    /** The answer to a request that has no head, since it could not be read. */
    ErrorResponse describe(HttpException failure);

    record ErrorResponse(byte[] json, Map<String, String> headers) {}

    /** A place among those that are worked on at once. */
    @FunctionalInterface
    interface Permit extends AutoCloseable {
        @Override
        void close();
    }
}
