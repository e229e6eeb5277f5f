package dev.starforge.serve.http;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Clock;
import java.time.Duration;
import java.util.Comparator;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * An HTTP/1.1 server that detects a closed connection at once. Each connection has two virtual threads: one serves requests, the
 * other always reads ({@link ConnectionReader}), so that a disconnect is seen even while no response is written. Handlers may block.
 * See ADR 11. All resources are bounded by {@link HttpLimits}.
 */
public final class HttpServer implements AutoCloseable {
    private static final int BACKLOG = 512;
    private static final Duration TICK = Duration.ofMillis(100);

    private final ServerSocket listener;
    private final Handler handler;
    private final HttpLimits limits;
    private final Clock clock;
    private final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private volatile boolean closing;

    private HttpServer(ServerSocket listener, Handler handler, HttpLimits limits, Clock clock) {
        this.listener = listener;
        this.handler = handler;
        this.limits = limits;
        this.clock = clock;
    }

    /** Binds and listens; port 0 binds any free port. */
    public static HttpServer start(InetSocketAddress address, Handler handler, HttpLimits limits, Clock clock)
            throws IOException {
        ServerSocket listener = new ServerSocket();
        try {
            listener.setReuseAddress(true);
            listener.bind(address, BACKLOG);
        } catch (IOException failure) {
            listener.close();
            throw new IOException("http: cannot listen on " + address + ": " + failure.getMessage(), failure);
        }
        HttpServer server = new HttpServer(listener, handler, limits, clock);
        Thread.ofPlatform().name("http accept").daemon().start(server::accept);
        Thread.ofPlatform().name("http clock").daemon().start(server::watchWrites);
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
            connection = new Connection(socket, handler, limits, clock);
        } catch (IOException e) {
            return; // the client has disconnected; the socket is closed
        }
        if (!makeRoom()) {
            HttpException full = new HttpException(
                    503, "too_many_connections", "all " + limits.connections() + " connections are in use");
            Thread.ofVirtual().start(() -> connection.refuse(full));
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

    /** Returns true if there is room for a connection; closes the connection that has been idle longest if necessary. */
    private boolean makeRoom() {
        if (connections.size() < limits.connections()) {
            return true;
        }
        var idle = connections.stream().filter(Connection::isIdle).min(Comparator.comparingLong(Connection::idleSince));
        idle.ifPresent(connection -> {
            connections.remove(connection);
            connection.close();
        });
        return idle.isPresent();
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
