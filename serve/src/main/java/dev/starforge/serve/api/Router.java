package dev.starforge.serve.api;

import dev.starforge.serve.api.ApiRoute.Weight;
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

/** From a request to its route, with what all routes have in common: access, concurrency, correlation, errors, a line of log. */
public final class Router implements Handler {
    private final List<ApiRoute> routes;
    private final AccessControl access;
    private final Semaphore places;
    private final EventLog log;
    private final Supplier<String> ids;
    private final RejectionCounter refusals;
    private final ExecutorService workers = Executors.newCachedThreadPool(
            Thread.ofPlatform().name("request ", 0).daemon().factory());

    /**
     * @param requests worked on at once; health and metrics do not count
     * @param ids for requests that bring none
     * @param refusals told of each request that was not served
     */
    public Router(
            List<ApiRoute> routes,
            AccessControl access,
            int requests,
            EventLog log,
            Supplier<String> ids,
            RejectionCounter refusals) {
        this.routes = List.copyOf(routes);
        this.access = access;
        this.places = new Semaphore(requests);
        this.log = log;
        this.ids = ids;
        this.refusals = refusals;
    }

    /** Counts what was not served. */
    public interface RejectionCounter {
        RejectionCounter UNCOUNTED = new RejectionCounter() {
            @Override
            public void invalid() {}

            @Override
            public void rejected() {}
        };

        void invalid();

        /** Too many at once. */
        void rejected();
    }

    @Override
    public Permit admit(RequestHead head) {
        if (routes.stream().noneMatch(route -> route.weight() == Weight.OPEN && route.matches(head.path()))) {
            access.check(head);
        }
        Weight weight = route(head).weight();
        if (weight == Weight.ADMIN) {
            access.checkAdmin(head);
        }
        if (weight != Weight.WORK && weight != Weight.RELAY) {
            return () -> {};
        }
        if (!places.tryAcquire()) {
            refusals.rejected();
            throw new HttpException(429, "too_many_requests", "too many requests at once", Map.of("Retry-After", "1"));
        }
        return places::release;
    }

    private ApiRoute route(RequestHead head) {
        List<ApiRoute> there =
                routes.stream().filter(route -> route.matches(head.path())).toList();
        if (there.isEmpty()) {
            throw new HttpException(404, "not_found", "no such path; see docs/api.md for those there are");
        }
        Optional<ApiRoute> route =
                there.stream().filter(each -> each.answers(head.method())).findFirst();
        String allowed = there.stream().map(ApiRoute::method).collect(Collectors.joining(", "));
        return route.orElseThrow(() ->
                new HttpException(405, "method_not_allowed", "this path takes " + allowed, Map.of("Allow", allowed)));
    }

    @Override
    public void handle(Exchange exchange) throws IOException {
        RequestHead head = exchange.head();
        ApiRoute route = route(head);
        Call call = new Call(exchange, route.rest(head.path()), access.tenant(head), correlation(head));
        exchange.header(Call.CORRELATION, call.correlation());
        long begin = System.nanoTime();
        try {
            if (route.weight().isQuick() || route.weight() == Weight.RELAY) {
                answer(route, exchange, call);
            } else {
                onPlatformThread(() -> answer(route, exchange, call));
            }
        } finally {
            LogLevel level = route.weight().isQuick() ? LogLevel.DEBUG : LogLevel.INFO;
            log.line(level, "http", "answered", head.method() + " " + route.path())
                    .with("correlation_id", call.correlation())
                    .with("status", call.status())
                    .with("duration_ms", (System.nanoTime() - begin) / 1_000_000)
                    .log(head.method() + " " + route.path() + " was answered with " + call.status());
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
                case IOException gone -> throw gone;
                case RuntimeException wrong -> throw wrong;
                case Error fatal -> throw fatal;
                case null, default -> throw new IllegalStateException(failure);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private void answer(ApiRoute route, Exchange exchange, Call call) throws IOException {
        try {
            route.action().answer(call);
        } catch (InvalidRequestException invalid) {
            refusals.invalid();
            call.respond(400, "application/json", route.api().body(invalid));
        } catch (HttpException failure) {
            failure.headers().forEach(exchange::header);
            call.respond(failure.status(), "application/json", Api.body(failure));
        } catch (RuntimeException | InterruptedException | StackOverflowError wrong) {
            log.line(LogLevel.ERROR, "http", "failed", route.path())
                    .with("correlation_id", call.correlation())
                    .with("error_kind", wrong.getClass().getSimpleName())
                    .log("a request failed inside: " + wrong.getMessage());
            if (exchange.isAnswered()) {
                throw new IOException("the answer broke off", wrong);
            }
            call.respond(500, Api.error(500, "internal_error", "the request failed inside the server"));
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
                .log("a request was refused: " + failure.text());
        return new ErrorResponse(Api.body(failure), headers);
    }

    @Override
    public ErrorResponse describe(HttpException failure) {
        log.line(LogLevel.WARN, "http", "refused", "connection")
                .with("status", failure.status())
                .with("error_kind", failure.code())
                .log("a request was refused: " + failure.text());
        return new ErrorResponse(Api.body(failure), Map.of());
    }

    /** The client's own id where it has one that may stand in a header and a log. */
    private String correlation(RequestHead head) {
        return head.header("x-correlation-id")
                .filter(id -> id.length() <= 128 && id.chars().allMatch(c -> c > ' ' && c < 127))
                .orElseGet(ids);
    }
}
