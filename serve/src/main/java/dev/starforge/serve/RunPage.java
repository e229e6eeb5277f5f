package dev.starforge.serve;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.ApiRoute.Weight;
import dev.starforge.serve.api.Router;
import dev.starforge.serve.http.HttpLimits;
import dev.starforge.serve.http.HttpServer;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.page.LiveFeed;
import dev.starforge.serve.page.PageRoutes;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import tools.jackson.databind.JsonNode;

/**
 * A page that shows a training run while it goes on, on this machine alone. It is told what changes and reads the run's metrics
 * from their file; when it is closed, whoever watches is told the last of it first.
 */
public final class RunPage implements AutoCloseable {
    private static final Duration LOOK = Duration.ofMillis(500);
    private static final Duration LAST_WRITES = Duration.ofSeconds(2);
    private static final int WATCHERS = 32;

    private final LiveFeed feed = new LiveFeed(LOOK);
    private final HttpServer server;

    private RunPage(int port, String script, Clock clock, Supplier<String> ids) throws IOException {
        List<ApiRoute> routes = new ArrayList<>(PageRoutes.ofRun(script).routes());
        routes.add(new ApiRoute("GET", "/run", Api.NATIVE, Weight.WORK, feed::stream));
        Router router = new Router(
                routes,
                new AccessControl(List.of()),
                WATCHERS,
                EventLog.silent(),
                ids,
                Router.RejectionCounter.UNCOUNTED);
        server = HttpServer.start(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), port), router, HttpLimits.DEFAULT, clock);
    }

    /**
     * Listens.
     *
     * @param port 0 for a free one
     * @param script that lays a run out
     * @param ids of requests
     */
    public static RunPage start(int port, String script, Clock clock, Supplier<String> ids) throws IOException {
        return new RunPage(port, script, clock, ids);
    }

    public URI uri() {
        return URI.create("http://127.0.0.1:" + server.port());
    }

    /** Says something of the run; of each name the latest counts. */
    public void set(String name, JsonNode value) {
        feed.set(name, value);
    }

    /** The run has begun, and writes its metrics here. */
    public void follow(Path metrics) {
        feed.follow(metrics);
    }

    @Override
    public void close() {
        feed.end();
        server.close(LAST_WRITES);
    }
}
