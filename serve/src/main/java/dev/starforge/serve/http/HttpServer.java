package dev.starforge.serve.http;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Clock;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * An HTTP/1.1 server that detects a closed connection at once. Each connection has two virtual threads: one serves requests, the
 * other always reads ({@link ConnectionReader}), so that a disconnect is seen even while no response is written. Handlers may block.
 * See ADR 11. All resources are bounded by {@link HttpLimits}.
 */
public final class HttpServer implements AutoCloseable {
    private static final int BACKLOG = 512;

    /** Connections beyond the limit, for essential requests only. */
    private static final int RESERVED = 16;

    private static final Duration TICK = Duration.ofMillis(100);

    /** A body that has been arriving for longer gives way to others. */
    private static final Duration SLOW_BODY = Duration.ofSeconds(1);

    private final ServerSocket listener;
    private final Handler handler;
    private final HttpLimits limits;
    private final Clock clock;
    private final Predicate<InetAddress> shared;
    private final ByteBudget buffers;
    private final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private volatile boolean closing;

    private HttpServer(
            ServerSocket listener, Handler handler, HttpLimits limits, Clock clock, Predicate<InetAddress> shared) {
        this.listener = listener;
        this.handler = handler;
        this.limits = limits;
        this.buffers = new ByteBudget(limits.buffers());
        this.clock = clock;
        this.shared = shared;
    }

    /** Binds and listens; port 0 binds any free port. */
    public static HttpServer start(InetSocketAddress address, Handler handler, HttpLimits limits, Clock clock)
            throws IOException {
        return start(address, handler, limits, clock, InetAddress::isLoopbackAddress);
    }

    /** @param shared addresses of proxies, which {@link HttpLimits#perAddress} does not limit */
    static HttpServer start(
            InetSocketAddress address, Handler handler, HttpLimits limits, Clock clock, Predicate<InetAddress> shared)
            throws IOException {
        ServerSocket listener = new ServerSocket();
        try {
            listener.setReuseAddress(true);
            listener.bind(address, BACKLOG);
        } catch (IOException failure) {
            listener.close();
            throw new ListenException(address, failure);
        }
        HttpServer server = new HttpServer(listener, handler, limits, clock, shared);
        EssentialThread.start("http accept", server::accept);
        EssentialThread.start("http clock", server::watchWrites);
        return server;
    }

    public int port() {
        return listener.getLocalPort();
    }

    public InetAddress address() {
        return listener.getInetAddress();
    }

    /** Number of open connections. */
    public int connections() {
        return connections.size();
    }

    /** Bytes of requests that are buffered. */
    long bufferedBytes() {
        return buffers.used();
    }

    private void accept() {
        while (!closing) {
            Socket socket;
            try {
                socket = listener.accept();
            } catch (IOException e) {
                pause(); // such as no free file descriptors
                continue;
            }
            serve(socket);
        }
    }

    private void serve(Socket socket) {
        Connection connection;
        try {
            connection = new Connection(socket, handler, limits, buffers, this::reserveByEviction, clock);
        } catch (IOException e) {
            return; // the client has disconnected; the socket is closed
        }
        Optional<HttpException> refusal = refusal(connection);
        if (refusal.isPresent()) {
            Thread.ofVirtual().start(() -> connection.refuse(refusal.get()));
            return;
        }
        connections.add(connection);
        Thread.ofVirtual().name("http connection").start(() -> {
            try {
                connection.serve();
            } finally {
                connections.remove(connection);
            }
        });
    }

    /**
     * Makes room for a connection; returns why there is none. If all connections are in use, one that serves no request is closed: of the
     * address that has most of them, the oldest. If all of them serve requests, some more are accepted for essential requests; if all of
     * these are in use, too, one of them that serves no request is closed. Other connections never take their place.
     */
    private Optional<HttpException> refusal(Connection connection) {
        InetAddress address = connection.address();
        if (!shared.test(address)) {
            List<Connection> same = connections.stream()
                    .filter(each -> each.address().equals(address))
                    .toList();
            if (same.size() >= limits.perAddress() && !evictOne(same)) {
                return Optional.of(new HttpException(
                        503,
                        "too_many_connections",
                        "all " + limits.perAddress() + " connections that one address may have are in use"));
            }
        }
        if (hasRoom(false, limits.connections())) {
            return Optional.empty();
        }
        connection.serveEssentialOnly();
        return hasRoom(true, RESERVED) ? Optional.empty() : Optional.of(full(limits));
    }

    /** Returns true if one more connection of a kind is within the limit, after closing some that serve no request. */
    private boolean hasRoom(boolean essentialOnly, int limit) {
        while (true) {
            List<Connection> same = connections.stream()
                    .filter(each -> each.isEssentialOnly() == essentialOnly)
                    .toList();
            if (same.size() < limit) {
                return true;
            }
            if (!evictOne(same)) {
                return false;
            }
        }
    }

    /**
     * Reserves memory for a body when other bodies take all of it: closes the connections whose bodies have been arriving longest, and
     * longer than {@link #SLOW_BODY}, so that requests that never arrive do not keep others out.
     */
    private boolean reserveByEviction(Connection connection, long bytes) {
        long slow = System.nanoTime() - SLOW_BODY.toNanos();
        record Arriving(Connection connection, long since, long reserved) {}
        List<Arriving> victims = connections.stream()
                .filter(each -> each != connection)
                .flatMap(
                        each -> each.arriving().stream().map(body -> new Arriving(each, body.since(), body.reserved())))
                .filter(each -> each.since() - slow < 0 && each.reserved() > 0)
                .sorted(Comparator.comparingLong(Arriving::since))
                .toList();
        long missing = bytes - (buffers.total() - buffers.used());
        boolean evicted = false;
        for (Arriving victim : victims) {
            if (missing > 0 && victim.connection().evict()) {
                connections.remove(victim.connection());
                missing -= victim.reserved();
                evicted = true;
            }
        }
        try {
            return (missing <= 0 || evicted) && buffers.reserve(bytes, SLOW_BODY);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    static HttpException full(HttpLimits limits) {
        return new HttpException(
                503, "too_many_connections", "all " + limits.connections() + " connections are in use");
    }

    private boolean evictOne(Collection<Connection> among) {
        Map<InetAddress, Long> counts =
                among.stream().collect(Collectors.groupingBy(Connection::address, Collectors.counting()));
        Comparator<Connection> byCount =
                Comparator.comparing(each -> counts.getOrDefault(each.address(), 0L), Comparator.reverseOrder());
        Optional<Connection> victim = among.stream()
                .filter(Connection::isEvictable)
                .min(byCount.thenComparingLong(Connection::idleSince))
                .filter(Connection::evict);
        victim.ifPresent(connections::remove);
        return victim.isPresent();
    }

    /** Closes connections whose write has been blocked for too long. */
    private void watchWrites() {
        while (!listener.isClosed() || !connections.isEmpty()) {
            long now = System.nanoTime();
            for (Connection connection : connections) {
                long since = connection.writingSince();
                if (since != 0 && now - since > limits.writeTime().toNanos()) {
                    connection.close();
                }
            }
            pause();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(TICK);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Accepts no more connections, waits up to {@code grace} for running responses, and closes all connections. */
    public void close(Duration grace) {
        closing = true;
        try {
            listener.close();
        } catch (IOException e) {
            // nothing more to do
        }
        long deadline = System.nanoTime() + grace.toNanos();
        connections.forEach(Connection::drain);
        while (!connections.isEmpty() && System.nanoTime() < deadline) {
            pause();
        }
        connections.forEach(Connection::close);
    }

    @Override
    public void close() {
        close(Duration.ZERO);
    }
}
