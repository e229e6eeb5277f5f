package dev.starforge.serve.pool;

import java.util.List;
import java.util.stream.Stream;

/**
 * Keys that a pool knows.
 *
 * @param clients of which a request must have one; none for this machine alone
 * @param admins of whom alone workers are started, stopped and registered; none: whoever is heard may
 */
public record PoolKeys(List<String> clients, List<String> admins) {
    public static final PoolKeys NONE = new PoolKeys(List.of(), List.of());

    public PoolKeys {
        clients = List.copyOf(clients);
        admins = List.copyOf(admins);
    }

    /** What must not be in a log. */
    public List<String> all() {
        return Stream.concat(clients.stream(), admins.stream()).toList();
    }
}
