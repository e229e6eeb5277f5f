package dev.starforge.serve.pool.api;

import dev.starforge.serve.pool.config.RemoteEntry;
import dev.starforge.serve.pool.supervise.PoolError;
import dev.starforge.serve.pool.supervise.PoolException;
import dev.starforge.serve.pool.supervise.Supervisor;
import java.io.IOException;
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
 * Workers that somebody else starts. A host may be a name with several addresses, as a headless Service of Kubernetes has: there is a
 * worker at each of them, and they come and go, so the name is resolved again and again.
 */
public final class WorkerRegistry {
    private final Supervisor supervisor;
    private final HostResolver resolver;
    private final Map<RemoteEntry, Set<String>> known = new LinkedHashMap<>();

    public WorkerRegistry(Supervisor supervisor, HostResolver resolver) {
        this.supervisor = supervisor;
        this.resolver = resolver;
    }

    /** Addresses of a host. */
    @FunctionalInterface
    public interface HostResolver {
        List<String> resolve(String host) throws UnknownHostException;

        static HostResolver ofSystem() {
            return host -> List.of(InetAddress.getAllByName(host)).stream()
                    .map(InetAddress::getHostAddress)
                    .toList();
        }
    }

    /** Watches what an entry means from now on; the ids of what it means now. */
    public synchronized List<String> register(RemoteEntry entry) {
        known.putIfAbsent(entry, Set.of());
        refresh(entry);
        List<String> ids = List.copyOf(known.getOrDefault(entry, Set.of()));
        if (ids.isEmpty()) {
            known.remove(entry);
            throw new PoolException(
                    PoolError.WORKER_NOT_FOUND, true, entry.uri().getHost() + ": this name has no address now");
        }
        return ids;
    }

    /** The same, for a name that may get its first address later. */
    public synchronized void watch(RemoteEntry entry) {
        known.putIfAbsent(entry, Set.of());
        refresh(entry);
    }

    /** Looks at all names again. */
    public synchronized void refresh() {
        List.copyOf(known.keySet()).forEach(this::refresh);
    }

    private void refresh(RemoteEntry entry) {
        List<String> addresses;
        try {
            addresses = resolver.resolve(entry.uri().getHost());
        } catch (UnknownHostException none) {
            return; // a resolver that fails does not mean that workers are gone: their health says that
        }
        Set<String> now = new LinkedHashSet<>();
        for (String address : addresses) {
            String host = address.contains(":") ? "[" + address + "]" : address;
            int port = entry.uri().getPort() < 0 ? 80 : entry.uri().getPort();
            now.add(supervisor.register(URI.create("http://" + host + ":" + port), key(entry)));
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
                                .orElse("");
                    } catch (IOException unreadable) {
                        throw new PoolException(
                                PoolError.WORKER_NOT_FOUND, false, file + ": cannot be read: " + unreadable);
                    }
                })
                .orElse("");
    }
}
