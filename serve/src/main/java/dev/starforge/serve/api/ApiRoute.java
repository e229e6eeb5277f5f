package dev.starforge.serve.api;

import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

/**
 * One operation of a server.
 *
 * @param path exact, or with {@code /{id}} at the end, which matches the rest of the path
 */
public record ApiRoute(String method, String path, Api api, Execution execution, Auth auth, RouteAction action) {
    private static final String REST = "/{id}";

    /** A route for clients with an API key. */
    public ApiRoute(String method, String path, Api api, Execution execution, RouteAction action) {
        this(method, path, api, execution, Auth.CLIENT, action);
    }

    @FunctionalInterface
    public interface RouteAction {
        void answer(Call call) throws IOException, InterruptedException;
    }

    boolean matches(String other) {
        return path.endsWith(REST) ? !rest(other).isEmpty() : path.equals(other);
    }

    /** HEAD is supported where GET runs inline; the response has no body. */
    boolean answers(String other) {
        return method.equals(other) || other.equals("HEAD") && method.equals("GET") && execution == Execution.INLINE;
    }

    /** The part of a path that {@code {id}} matches, decoded. */
    String rest(String other) {
        String stem = path.substring(0, Math.max(0, path.length() - REST.length() + 1));
        return path.endsWith(REST) && other.startsWith(stem) ? decoded(other.substring(stem.length())) : "";
    }

    /** Decodes percent-encoding: a name with a slash is sent as {@code a%2Fb}. */
    private static String decoded(String text) {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException e) {
            return text;
        }
    }
}
