package dev.starforge.serve.api;

import dev.starforge.serve.http.Exchange;
import dev.starforge.serve.http.RequestHead;
import dev.starforge.serve.http.ResponseStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import tools.jackson.databind.node.ObjectNode;

/** One HTTP request on its route, and its response. */
public final class Call {
    public static final String CORRELATION = "X-Correlation-ID";

    private final Exchange exchange;
    private final String pathParameter;
    private final String tenant;
    private final String correlation;
    private volatile int status;

    Call(Exchange exchange, String pathParameter, String tenant, String correlation) {
        this.exchange = exchange;
        this.pathParameter = pathParameter;
        this.tenant = tenant;
        this.correlation = correlation;
    }

    public RequestFields fields() {
        return RequestFields.of(exchange.body());
    }

    /** The request line and headers, for relaying. */
    public RequestHead head() {
        return exchange.head();
    }

    public byte[] body() {
        return exchange.body();
    }

    /** The part of the path that {@code {id}} matches. */
    public String pathParameter() {
        return pathParameter;
    }

    public String tenant() {
        return tenant;
    }

    public String correlation() {
        return correlation;
    }

    /** The status of the response; 0 before it begins. */
    int status() {
        return status;
    }

    public void onDisconnect(Runnable action) {
        exchange.onDisconnect(action);
    }

    public void header(String name, String value) {
        exchange.header(name, value);
    }

    public void respond(int code, ObjectNode body) throws IOException {
        respond(code, "application/json", Api.bytes(body));
    }

    public void respond(int code, String type, byte[] body) throws IOException {
        status = code;
        exchange.respond(code, type, body);
    }

    /** Begins a stream of server-sent events, for raw writes. */
    public ResponseStream eventStream() throws IOException {
        status = 200;
        exchange.header("Cache-Control", "no-cache");
        return exchange.stream("text/event-stream; charset=utf-8");
    }

    /** Begins a stream of server-sent events. */
    public Events events() throws IOException {
        ResponseStream stream = eventStream();
        return new Events() {
            @Override
            public void send(String data) throws IOException {
                stream.write(("data: " + data + "\n\n").getBytes(StandardCharsets.UTF_8));
            }

            @Override
            public void finish() throws IOException {
                stream.finish();
            }
        };
    }

    /** Server-sent events with only a data field. */
    public interface Events {
        void send(String data) throws IOException;

        default void send(ObjectNode data) throws IOException {
            send(data.toString());
        }

        void finish() throws IOException;
    }
}
