package dev.starforge.serve.api;

import dev.starforge.serve.api.Route.Weight;
import dev.starforge.serve.http.Exchange;
import dev.starforge.serve.http.Handler;
import dev.starforge.serve.http.Head;
import dev.starforge.serve.http.HttpFailure;
import dev.starforge.serve.log.Narration;
import dev.starforge.serve.log.Narration.Level;
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
    private final List<Route> routes;
    private final Access access;
    private final Semaphore places;
    private final Narration log;
    private final Supplier<String> ids;
    private final Refusals refusals;
    private final ExecutorService workers = Executors.newCachedThreadPool(
            Thread.ofPlatform().name("request ", 0).daemon().factory());

    /**
     * @param requests worked on at once; health and metrics do not count
     * @param ids for requests that bring none
     * @param refusals told of each request that was not served
     */
    public Router(
            List<Route> routes, Access access, int requests, Narration log, Supplier<String> ids, Refusals refusals) {
        this.routes = List.copyOf(routes);
        this.access = access;
        this.places = new Semaphore(requests);
        this.log = log;
        this.ids = ids;
        this.refusals = refusals;
    }

    /** Counts what was not served. */
    public interface Refusals {
        Refusals UNCOUNTED = new Refusals() {
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
    public Permit admit(Head head) {
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
            throw new HttpFailure(429, "too_many_requests", "too many requests at once", Map.of("Retry-After", "1"));
        }
        return places::release;
    }

    private Route route(Head head) {
        List<Route> there =
                routes.stream().filter(route -> route.matches(head.path())).toList();
        if (there.isEmpty()) {
            throw new HttpFailure(404, "not_found", "no such path; see docs/api.md for those there are");
        }
        Optional<Route> route =
                there.stream().filter(each -> each.answers(head.method())).findFirst();
        String allowed = there.stream().map(Route::method).collect(Collectors.joining(", "));
        return route.orElseThrow(() ->
                new HttpFailure(405, "method_not_allowed", "this path takes " + allowed, Map.of("Allow", allowed)));
    }

    @Override
    public void handle(Exchange exchange) throws IOException {
        Head head = exchange.head();
        Route route = route(head);
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
            Level level = route.weight().isQuick() ? Level.DEBUG : Level.INFO;
            log.line(level, "http", "answered", head.method() + " " + route.path())
                    .with("correlation_id", call.correlation())
                    .with("status", call.status())
                    .with("duration_ms", (System.nanoTime() - begin) / 1_000_000)
                    .say(head.method() + " " + route.path() + " was answered with " + call.status());
        }
    }

    @FunctionalInterface
    private interface Work {
        void run() throws IOException;
    }

    private void onPlatformThread(Work work) throws IOException {
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

    private void answer(Route route, Exchange exchange, Call call) throws IOException {
        try {
            route.action().answer(call);
        } catch (InvalidRequest invalid) {
            refusals.invalid();
            call.respond(400, "application/json", route.api().body(invalid));
        } catch (HttpFailure failure) {
            failure.headers().forEach(exchange::header);
            call.respond(failure.status(), "application/json", Api.body(failure));
        } catch (RuntimeException | InterruptedException | StackOverflowError wrong) {
            log.line(Level.ERROR, "http", "failed", route.path())
                    .with("correlation_id", call.correlation())
                    .with("error_kind", wrong.getClass().getSimpleName())
                    .say("a request failed inside: " + wrong.getMessage());
            if (exchange.isAnswered()) {
                throw new IOException("the answer broke off", wrong);
            }
            call.respond(500, Api.error(500, "internal_error", "the request failed inside the server"));
        }
    }

    @Override
    public Failed describe(Head head, HttpFailure failure) {
        Map<String, String> headers = new TreeMap<>(failure.headers());
        headers.put(Call.CORRELATION, correlation(head));
        log.line(Level.WARN, "http", "refused", head.method())
                .with("correlation_id", headers.getOrDefault(Call.CORRELATION, ""))
                .with("status", failure.status())
                .with("error_kind", failure.code())
                .say("a request was refused: " + failure.text());
        return new Failed(Api.body(failure), headers);
    }

    @Override
    public Failed describe(HttpFailure failure) {
        log.line(Level.WARN, "http", "refused", "connection")
                .with("status", failure.status())
                .with("error_kind", failure.code())
                .say("a request was refused: " + failure.text());
        return new Failed(Api.body(failure), Map.of());
    }

    /** The client's own id where it has one that may stand in a header and a log. */
    private String correlation(Head head) {
        return head.header("x-correlation-id")
                .filter(id -> id.length() <= 128 && id.chars().allMatch(c -> c > ' ' && c < 127))
                .orElseGet(ids);
    }
}
