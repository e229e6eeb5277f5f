package dev.starforge.serve;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Execution;
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
 * A web page that shows the progress of a training run, on localhost only. It reads the run's metrics from their file.
 */
public final class RunPage implements AutoCloseable {
    private static final Duration POLL_INTERVAL = Duration.ofMillis(500);
    private static final Duration CLOSE_GRACE = Duration.ofSeconds(2);
    private static final int MAX_WATCHERS = 32;

    private final LiveFeed feed = new LiveFeed(POLL_INTERVAL);
    private final HttpServer server;

    private RunPage(int port, String script, Clock clock, Supplier<String> ids) throws IOException {
        List<ApiRoute> routes = new ArrayList<>(PageRoutes.ofRun(script).routes());
        routes.add(new ApiRoute("GET", "/run", Api.NATIVE, Execution.GENERATION, feed::stream));
        Router router = new Router(
                routes,
                new AccessControl(List.of()),
                MAX_WATCHERS,
                EventLog.silent(),
                ids,
                Router.RejectionCounter.UNCOUNTED);
        server = HttpServer.start(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), port), router, HttpLimits.DEFAULT, clock);
    }

    /**
     * Starts the server.
     *
     * @param port 0 for any free port
     * @param script JavaScript that renders a run
     * @param ids generates correlation ids
     */
    public static RunPage start(int port, String script, Clock clock, Supplier<String> ids) throws IOException {
        return new RunPage(port, script, clock, ids);
    }

    public URI uri() {
        return URI.create("http://127.0.0.1:" + server.port());
    }

    /** Sets a value of the run; replaces an earlier value of that name. */
    public void set(String name, JsonNode value) {
        feed.set(name, value);
    }

    /** Follows the metrics file of the run. */
    public void follow(Path metrics) {
        feed.follow(metrics);
    }

    @Override
    public void close() {
        feed.end();
        server.close(CLOSE_GRACE);
    }
}
