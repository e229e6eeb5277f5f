package dev.starforge.serve.api;

import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

/**
 * One operation of a server.
 *
 * @param path exact, or with {@code /{id}} at the end, which is the rest of the path
 * @param weight where it runs, and what it counts for
 */
public record ApiRoute(String method, String path, Api api, Weight weight, RouteAction action) {
    private static final String REST = "/{id}";

    /** Virtual threads are not preempted: what computes for long there holds up everybody, a health check too. */
    public enum Weight {
        /** As {@link #QUICK}, and for everybody, without a key: it says nothing that is not public. */
        OPEN,
        /** On the connection's virtual thread: it answers from memory, at once. */
        QUICK,
        /** On a platform thread: it parses what may be large. */
        CONTROL,
        /** As {@link #CONTROL}, and for those alone who may change the server. */
        ADMIN,
        /** On the connection's virtual thread, and one of the places for requests at once is taken: it waits for others. */
        RELAY,
        /** On a platform thread, and one of the places for requests at once is taken: it tokenizes, and waits for tokens. */
        WORK;

        boolean isQuick() {
            return this == OPEN || this == QUICK;
        }
    }

    @FunctionalInterface
    public interface RouteAction {
        void answer(Call call) throws IOException, InterruptedException;
    }

    boolean matches(String other) {
        return path.endsWith(REST) ? !rest(other).isEmpty() : path.equals(other);
    }

    /** HEAD is answered as GET is, without the body, where the answer comes at once. */
    boolean answers(String other) {
        return method.equals(other) || other.equals("HEAD") && method.equals("GET") && weight.isQuick();
    }

    /** What stands for {@code {id}} in a path. */
    String rest(String other) {
        String stem = path.substring(0, Math.max(0, path.length() - REST.length() + 1));
        return path.endsWith(REST) && other.startsWith(stem) ? decoded(other.substring(stem.length())) : "";
    }

    /** A name with a slash comes as {@code a%2Fb}. */
    private static String decoded(String text) {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException malformed) {
            return text;
        }
    }
}
