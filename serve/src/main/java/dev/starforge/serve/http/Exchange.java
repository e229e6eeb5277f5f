package dev.starforge.serve.http;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One request and its response, which is written whole or as a stream. The client can disconnect at any time. */
public final class Exchange {
    private final RequestHead head;
    private final ResponseWriter writer;
    private final Runnable onBodyReleased;
    private final Map<String, String> headers = new LinkedHashMap<>();
    private final List<Runnable> onDisconnect = new ArrayList<>();
    private byte[] body;
    private boolean disconnected;

    /** @param onBodyReleased releases the memory of the body */
    Exchange(RequestHead head, byte[] body, ResponseWriter writer, Runnable onBodyReleased) {
        this.head = head;
        this.body = body;
        this.writer = writer;
        this.onBodyReleased = onBodyReleased;
    }

    public RequestHead head() {
        return head;
    }

    public byte[] body() {
        return body;
    }

    /** Gives up the body once it has been read: a response may take minutes, and the memory is needed for other bodies. */
    public void releaseBody() {
        body = new byte[0];
        onBodyReleased.run();
    }

    /** Sets a response header. */
    public void header(String name, String value) {
        headers.put(name, value);
    }

    public Map<String, String> headers() {
        return Map.copyOf(headers);
    }

    /** Runs {@code action} once if the client disconnects before the response is complete; at once if it has disconnected. */
    public void onDisconnect(Runnable action) {
        synchronized (this) {
            if (!disconnected) {
                onDisconnect.add(action);
                return;
            }
        }
        action.run();
    }

    void disconnect() {
        List<Runnable> actions;
        synchronized (this) {
            disconnected = true;
            actions = List.copyOf(onDisconnect);
            onDisconnect.clear();
        }
        actions.forEach(Runnable::run);
    }

    synchronized boolean isDisconnected() {
        return disconnected;
    }

    public boolean isAnswered() {
        return writer.isBegun();
    }

    /** Sends a whole response. */
    public void respond(int status, String type, byte[] content) throws IOException {
        writer.whole(head, status, type, headers, content);
    }

    /** Begins a streamed response; each write is sent at once. */
    public ResponseStream stream(String type) throws IOException {
        return writer.stream(head, type, headers);
    }
}
