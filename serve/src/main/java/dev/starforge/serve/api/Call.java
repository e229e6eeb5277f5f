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
    private final RequestMemory memory;
    private volatile int status;

    Call(Exchange exchange, String pathParameter, String tenant, String correlation, RequestMemory memory) {
        this.exchange = exchange;
        this.memory = memory;
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

    /** Releases the memory that was reserved for parsing the body, which takes a multiple of its size. */
    public void parsed() {
        memory.close();
    }

    /** As {@link #parsed}, and gives up the body: the response may take minutes, and other requests need the memory. */
    public void releaseBody() {
        parsed();
        exchange.releaseBody();
    }

    /** Reserves memory for a large response instead of the parsed body; waits for other requests. */
    public void reserve(long bytes) throws InterruptedException {
        memory.resize(bytes);
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

    /** A response that is written in parts. */
    public JsonResponse json() {
        return new JsonResponse(this);
    }

    /** Begins a streamed response with status 200. */
    public ResponseStream stream(String type) throws IOException {
        status = 200;
        return exchange.stream(type);
    }

    /** Begins a stream of server-sent events, for raw writes. */
    public ResponseStream eventStream() throws IOException {
        exchange.header("Cache-Control", "no-cache");
        return stream("text/event-stream; charset=utf-8");
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
