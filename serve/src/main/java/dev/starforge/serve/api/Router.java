package dev.starforge.serve.api;

import dev.starforge.serve.http.ByteBudget;
import dev.starforge.serve.http.Exchange;
import dev.starforge.serve.http.Handler;
import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.http.RequestHead;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogLevel;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/** Dispatches requests to routes: authentication, request limit, correlation ids, error responses and the access log. */
public final class Router implements Handler {
    private final List<ApiRoute> routes;
    private final AccessControl access;
    private final Semaphore permits;
    private final ByteBudget memory = new ByteBudget(Runtime.getRuntime().maxMemory() / 2);
    private final EventLog log;
    private final Supplier<String> ids;
    private final RejectionCounter rejections;
    private final ExecutorService workers = Executors.newCachedThreadPool(
            Thread.ofPlatform().name("request ", 0).daemon().factory());

    /**
     * @param requests maximum number of concurrent requests; only routes with {@link Execution#isLimited} count
     * @param ids generates correlation ids for requests without one
     * @param rejections counts requests that were not served
     */
    public Router(
            List<ApiRoute> routes,
            AccessControl access,
            int requests,
            EventLog log,
            Supplier<String> ids,
            RejectionCounter rejections) {
        this.routes = List.copyOf(routes);
        this.access = access;
        this.permits = new Semaphore(requests);
        this.log = log;
        this.ids = ids;
        this.rejections = rejections;
    }

    /** Counts requests that were not served. */
    public interface RejectionCounter {
        RejectionCounter UNCOUNTED = new RejectionCounter() {
            @Override
            public void invalid() {}

            @Override
            public void rejected() {}
        };

        void invalid();

        /** The limit of requests or of their memory was reached. */
        void rejected();
    }

    @Override
    public void admit(RequestHead head) {
        if (routes.stream().noneMatch(route -> route.auth().needsNoClientKey() && route.matches(head.path()))) {
            access.check(head);
        }
        ApiRoute route = route(head);
        switch (route.auth()) {
            case ADMIN -> access.checkAdmin(head);
            case WORKER -> access.checkWorker(head);
            case PUBLIC, CLIENT -> {}
        }
        if (route.execution().isLimited() && permits.availablePermits() == 0) {
            throw tooManyRequests();
        }
    }

    private boolean isPublic(RequestHead head) {
        return routes.stream().anyMatch(route -> route.auth() == Auth.PUBLIC && route.matches(head.path()));
    }

    /** Public routes respond from memory, so they cannot be what keeps the server busy. */
    @Override
    public boolean isEssential(RequestHead head) {
        return isPublic(head);
    }

    private HttpException tooManyRequests() {
        rejections.rejected();
        return new HttpException(429, "too_many_requests", "too many concurrent requests", Map.of("Retry-After", "1"));
    }

    private ApiRoute route(RequestHead head) {
        List<ApiRoute> matching =
                routes.stream().filter(route -> route.matches(head.path())).toList();
        if (matching.isEmpty()) {
            throw new HttpException(404, "not_found", "no such path; docs/api.md lists all paths");
        }
        Optional<ApiRoute> route =
                matching.stream().filter(each -> each.answers(head.method())).findFirst();
        String allowed = matching.stream().map(ApiRoute::method).collect(Collectors.joining(", "));
        return route.orElseThrow(() -> new HttpException(
                405, "method_not_allowed", "this path supports " + allowed, Map.of("Allow", allowed)));
    }

    @Override
    public void handle(Exchange exchange) throws IOException {
        RequestHead head = exchange.head();
        ApiRoute route = route(head);
        long begin = System.nanoTime();
        try (RequestMemory reserved = new RequestMemory(memory, rejections::rejected)) {
            Call call = new Call(exchange, route.rest(head.path()), access.tenant(head), correlation(head), reserved);
            exchange.header(Call.CORRELATION, call.correlation());
            try {
                reserved.resize(route.execution().heapBytes(exchange.body().length));
                withPermit(route, () -> run(route, exchange, call));
            } finally {
                LogLevel level = route.execution() == Execution.INLINE ? LogLevel.DEBUG : LogLevel.INFO;
                log.line(level, "http", "answered", head.method() + " " + route.path())
                        .with("correlation_id", call.correlation())
                        .with("status", call.status())
                        .with("duration_ms", (System.nanoTime() - begin) / 1_000_000)
                        .log(head.method() + " " + route.path() + ": status " + call.status());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The permit is taken when the whole request has arrived: one that is still arriving does not keep others out. */
    private void withPermit(ApiRoute route, RouteTask work) throws IOException {
        if (!route.execution().isLimited()) {
            work.run();
            return;
        }
        if (!permits.tryAcquire()) {
            throw tooManyRequests();
        }
        try {
            work.run();
        } finally {
            permits.release();
        }
    }

    private void run(ApiRoute route, Exchange exchange, Call call) throws IOException {
        if (route.execution().needsPlatformThread()) {
            onPlatformThread(() -> answer(route, exchange, call));
        } else {
            answer(route, exchange, call);
        }
    }

    @FunctionalInterface
    private interface RouteTask {
        void run() throws IOException;
    }

    private void onPlatformThread(RouteTask work) throws IOException {
        try {
            workers.submit(() -> {
                        work.run();
                        return "";
                    })
                    .get();
        } catch (ExecutionException failure) {
            switch (failure.getCause()) {
                case IOException e -> throw e;
                case RuntimeException e -> throw e;
                case Error e -> throw e;
                case null, default -> throw new IllegalStateException(failure);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void answer(ApiRoute route, Exchange exchange, Call call) throws IOException {
        try {
            route.action().answer(call);
        } catch (InvalidRequestException invalid) {
            rejections.invalid();
            call.respond(400, "application/json", route.api().body(invalid));
        } catch (HttpException failure) {
            failure.headers().forEach(exchange::header);
            call.respond(failure.status(), "application/json", Api.body(failure));
        } catch (RuntimeException | InterruptedException | StackOverflowError e) {
            log.line(LogLevel.ERROR, "http", "failed", route.path())
                    .with("correlation_id", call.correlation())
                    .with("error_kind", e.getClass().getSimpleName())
                    .log("internal error: " + e.getMessage());
            if (exchange.isAnswered()) {
                throw new IOException("the response was cut off", e);
            }
            call.respond(500, Api.error(500, "internal_error", "internal server error"));
        }
    }

    @Override
    public ErrorResponse describe(RequestHead head, HttpException failure) {
        Map<String, String> headers = new TreeMap<>(failure.headers());
        headers.put(Call.CORRELATION, correlation(head));
        log.line(LogLevel.WARN, "http", "refused", head.method())
                .with("correlation_id", headers.getOrDefault(Call.CORRELATION, ""))
                .with("status", failure.status())
                .with("error_kind", failure.code())
                .log("request rejected: " + failure.text());
        return new ErrorResponse(Api.body(failure), headers);
    }

    @Override
    public ErrorResponse describe(HttpException failure) {
        log.line(LogLevel.WARN, "http", "refused", "connection")
                .with("status", failure.status())
                .with("error_kind", failure.code())
                .log("request rejected: " + failure.text());
        return new ErrorResponse(Api.body(failure), Map.of());
    }

    /** The client's correlation id, if it is printable ASCII of at most 128 characters; else a new one. */
    private String correlation(RequestHead head) {
        return head.header("x-correlation-id")
                .filter(id -> id.length() <= 128 && id.chars().allMatch(c -> c > ' ' && c < 127))
                .orElseGet(ids);
    }
}
