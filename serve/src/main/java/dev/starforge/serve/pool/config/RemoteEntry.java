package dev.starforge.serve.pool.config;

import java.net.URI;
import java.nio.file.Path;
import java.util.Optional;

/**
 * A worker that the pool does not start; if the host has several addresses, a worker at each of them.
 *
 * @param apiKeyFile file whose first key the pool sends; if absent, the client's key is passed through
 */
public record RemoteEntry(URI uri, Optional<Path> apiKeyFile) {
    public RemoteEntry {
        if (!"http".equals(uri.getScheme())
                || uri.getHost() == null
                || !uri.getPath().matches("/?")) {
            throw new IllegalArgumentException("expected http://HOST:PORT, got " + uri);
        }
    }
}
