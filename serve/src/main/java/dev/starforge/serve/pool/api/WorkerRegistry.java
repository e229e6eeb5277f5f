package dev.starforge.serve.pool.api;

import dev.starforge.serve.pool.config.RemoteEntry;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Registers workers that the pool does not start. A host can resolve to several addresses, as a headless Service of Kubernetes does:
 * each is a worker. Names are resolved periodically.
 */
public final class WorkerRegistry {
    private final Supervisor supervisor;
    private final HostResolver resolver;
    private final Map<RemoteEntry, Set<String>> known = new LinkedHashMap<>();

    public WorkerRegistry(Supervisor supervisor, HostResolver resolver) {
        this.supervisor = supervisor;
        this.resolver = resolver;
    }

    /** Resolves a host to its addresses. */
    @FunctionalInterface
    public interface HostResolver {
        List<String> resolve(String host) throws UnknownHostException;

        static HostResolver ofSystem() {
            return host -> List.of(InetAddress.getAllByName(host)).stream()
                    .map(InetAddress::getHostAddress)
                    .toList();
        }
    }

    /** Registers an entry; returns the ids of its current workers. Fails if the name has no address. */
    public synchronized List<String> register(RemoteEntry entry) {
        known.putIfAbsent(entry, Set.of());
        refresh(entry);
        List<String> ids = List.copyOf(known.getOrDefault(entry, Set.of()));
        if (ids.isEmpty()) {
            known.remove(entry);
            throw new PoolException(
                    PoolError.WORKER_NOT_FOUND, true, entry.uri().getHost() + ": the name has no address");
        }
        return ids;
    }

    /** Registers an entry whose name may have no address yet. */
    public synchronized void watch(RemoteEntry entry) {
        known.putIfAbsent(entry, Set.of());
        refresh(entry);
    }

    /** Resolves all names again. */
    public synchronized void refresh() {
        List.copyOf(known.keySet()).forEach(this::refresh);
    }

    private void refresh(RemoteEntry entry) {
        List<String> addresses;
        try {
            addresses = resolver.resolve(entry.uri().getHost());
        } catch (UnknownHostException e) {
            return; // workers stay registered while resolving fails; health checks detect lost ones
        }
        Set<String> now = new LinkedHashSet<>();
        for (String address : addresses) {
            String host = address.contains(":") ? "[" + address + "]" : address;
            int port = entry.uri().getPort() < 0 ? 80 : entry.uri().getPort();
            URI uri = URI.create("http://" + host + ":" + port);
            now.add(supervisor.register(WorkerEndpoint.registered(uri, key(entry))));
        }
        known.getOrDefault(entry, Set.of()).stream()
                .filter(id -> !now.contains(id))
                .forEach(supervisor::unregister);
        known.put(entry, now);
    }

    private static String key(RemoteEntry entry) {
        return entry.apiKeyFile()
                .map(file -> {
                    try (var lines = Files.lines(file)) {
                        return lines.map(String::strip)
                                .filter(line -> !line.isEmpty())
                                .findFirst()
                                .orElseThrow(() -> new PoolException(
                                        PoolError.WORKER_NOT_FOUND, false, file + ": contains no key"));
                    } catch (IOException | UncheckedIOException e) {
                        throw new PoolException(PoolError.WORKER_NOT_FOUND, false, file + ": cannot be read: " + e);
                    }
                })
                .orElse("");
    }
}
