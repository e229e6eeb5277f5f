package dev.starforge.serve.pool.config;

import java.net.URI;
import java.nio.file.Path;
import java.util.Optional;

/**
 * A worker that somebody else started, or, where the host is a name with several addresses, one at each of them.
 *
 * @param apiKeyFile whose first key the pool asks with; without one, clients' own keys go on
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
