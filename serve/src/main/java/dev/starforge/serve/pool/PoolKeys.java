package dev.starforge.serve.pool;

import java.util.List;
import java.util.stream.Stream;

/**
 * API keys of a pool.
 *
 * @param clients client keys; requests must send one of them; empty serves only local clients
 * @param admins keys for starting, stopping and registering workers
 */
public record PoolKeys(List<String> clients, List<String> admins) {
    public static final PoolKeys NONE = new PoolKeys(List.of(), List.of());

    public PoolKeys {
        clients = List.copyOf(clients);
        admins = List.copyOf(admins);
    }

    /** All keys, which must not be logged. */
    public List<String> all() {
        return Stream.concat(clients.stream(), admins.stream()).toList();
    }
}
