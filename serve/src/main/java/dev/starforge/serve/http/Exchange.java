package dev.starforge.serve.http;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One request and its answer, which is written whole or as a stream. Its end can come from the client at any time. */
public final class Exchange {
    private final RequestHead head;
    private final byte[] body;
    private final ResponseWriter writer;
    private final Map<String, String> headers = new LinkedHashMap<>();
    private final List<Runnable> whenGone = new ArrayList<>();
    private boolean disconnected;

    Exchange(RequestHead head, byte[] body, ResponseWriter writer) {
        this.head = head;
        this.body = body;
        this.writer = writer;
    }

    public RequestHead head() {
        return head;
    }

    public byte[] body() {
        return body;
    }

    /** A header of the answer, whatever that will be. */
    public void header(String name, String value) {
        headers.put(name, value);
    }

    public Map<String, String> headers() {
        return Map.copyOf(headers);
    }

    /** Runs once when the client leaves before the answer is complete; at once if it has left. */
    public void onDisconnect(Runnable action) {
        synchronized (this) {
            if (!disconnected) {
                whenGone.add(action);
                return;
            }
        }
        action.run();
    }

    /** The client has left. */
    void disconnect() {
        List<Runnable> actions;
        synchronized (this) {
            disconnected = true;
            actions = List.copyOf(whenGone);
            whenGone.clear();
        }
        actions.forEach(Runnable::run);
    }

    synchronized boolean isDisconnected() {
        return disconnected;
    }

    public boolean isAnswered() {
        return writer.isBegun();
    }

    /** Answers with a whole body. */
    public void respond(int status, String type, byte[] content) throws IOException {
        writer.whole(head, status, type, headers, content);
    }

    /** Begins an answer whose parts leave as they are written. */
    public ResponseStream stream(String type) throws IOException {
        return writer.stream(head, type, headers);
    }
}
