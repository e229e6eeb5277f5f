package dev.starforge.serve.pool.config;

import java.net.URI;
import java.nio.file.Path;
import java.util.Optional;

/**
 * A worker that the pool does not start; if the host has several addresses, a worker at each of them.
 *
 * @param apiKeyFile file whose first key the pool sends; if absent, it sends none
 */
public record RemoteEntry(URI uri, Optional<Path> apiKeyFile) {
    public static final String FORM = "http://HOST:PORT, with a port of 1 to 65535";

    public RemoteEntry {
        if (!"http".equals(uri.getScheme())
                || uri.getHost() == null
                || uri.getUserInfo() != null
                || uri.getPort() == 0
                || uri.getPort() > 65_535
                || !uri.getPath().matches("/?")
                || uri.getQuery() != null
                || uri.getFragment() != null) {
            throw new IllegalArgumentException("expected " + FORM + ", got " + uri);
        }
    }
}
