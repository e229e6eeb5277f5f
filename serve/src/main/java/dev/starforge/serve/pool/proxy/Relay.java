package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.ApiRoute.Weight;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.http.ResponseStream;
import dev.starforge.serve.pool.route.RoutingKey;
import dev.starforge.serve.pool.route.WorkerRouting;
import dev.starforge.serve.pool.supervise.OnDemandStarter;
import dev.starforge.serve.pool.supervise.PoolError;
import dev.starforge.serve.pool.supervise.PoolException;
import dev.starforge.serve.pool.supervise.WorkerLease;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import tools.jackson.databind.node.ObjectNode;

/**
 * Passes requests on to workers and answers back, event by event. As long as the client has been told nothing, a request whose
 * worker is lost goes to another one: nothing is lost and nothing answered twice. Once it has been told something, the stream ends with one
 * error that says to ask again.
 */
public final class Relay {
    /** Names the worker that answered. */
    public static final String WORKER = "X-Worker-ID";

    private static final int ATTEMPTS = 4;
    private static final byte[] DONE = "[DONE]".getBytes(StandardCharsets.US_ASCII);
    private static final List<String> PATHS =
            List.of("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/infill", "/tokenize", "/detokenize");

    private final OnDemandStarter demand;
    private final WorkerRouting routing;
    private final RelayListener watch;

    public Relay(OnDemandStarter demand, WorkerRouting routing, RelayListener watch) {
        this.demand = demand;
        this.routing = routing;
        this.watch = watch;
    }

    /** How a request ended. */
    public enum RelayOutcome {
        OK,
        REFUSED,
        CANCELLED,
        LOST
    }

    /** Hears how requests fare. */
    public interface RelayListener {
        void begun();

        void ended(RelayOutcome outcome);

        void retried();

        /** From a request's arrival to the first byte of its answer. */
        void firstByte(Duration time);
    }

    public List<ApiRoute> routes() {
        return PATHS.stream()
                .map(path -> new ApiRoute("POST", path, Api.OPENAI, Weight.RELAY, this::relay))
                .toList();
    }

    private void relay(Call call) throws IOException, InterruptedException {
        watch.begun();
        RelayOutcome outcome = RelayOutcome.CANCELLED;
        try {
            outcome = passOn(call);
        } catch (PoolException failure) {
            outcome = failure.isRetriable() ? RelayOutcome.LOST : RelayOutcome.REFUSED;
            if (failure.isRetriable()) {
                call.header("Retry-After", Long.toString(failure.retryAfter()));
            }
            call.respond(failure.code().status(), body(failure));
        } finally {
            watch.ended(outcome);
        }
    }

    /** The pool's error and OpenAI's in one, for clients of either. */
    private static ObjectNode body(PoolException failure) {
        ObjectNode body =
                Api.error(failure.code().status(), failure.code().name(), String.valueOf(failure.getMessage()));
        body.setAll(failure.json());
        return body;
    }

    private RelayOutcome passOn(Call call) throws IOException, InterruptedException {
        long begin = System.nanoTime();
        RoutingKey asked = RoutingKey.of(call.body());
        String model = demand.model(asked.model());
        String scope = call.tenant() + "\n" + model;
        Set<String> failed = new HashSet<>();
        AtomicBoolean disconnected = new AtomicBoolean();
        call.onDisconnect(() -> disconnected.set(true));
        for (int attempt = 1; ; attempt++) {
            boolean last = attempt == ATTEMPTS;
            try (WorkerLease lease =
                    demand.lease(model, failed, candidates -> routing.choose(scope, asked.text(), candidates))) {
                failed.add(lease.incarnation());
                BooleanSupplier elsewhere = () -> !last && demand.hasOther(model, failed);
                Optional<RelayOutcome> outcome = attempt(call, lease, begin, disconnected, last, elsewhere);
                if (outcome.isPresent()) {
                    return outcome.get();
                }
                watch.retried();
            }
        }
    }

    /** One try; empty when another worker may do better and the client has been told nothing. */
    private Optional<RelayOutcome> attempt(
            Call call,
            WorkerLease lease,
            long begin,
            AtomicBoolean disconnected,
            boolean last,
            BooleanSupplier elsewhere)
            throws IOException {
        Upstream opened;
        try {
            opened = Upstream.open(lease.uri());
        } catch (IOException unreachable) {
            return lost(lease, disconnected, last, unreachable);
        }
        Upstream.Begun begun;
        byte[] body = {};
        try (Upstream upstream = opened) {
            call.onDisconnect(upstream::close);
            lease.onLost(upstream::close);
            try {
                String query = call.head().query();
                String target = call.head().path() + (query.isEmpty() ? "" : "?" + query);
                upstream.send(call.head().method(), target, headers(call, lease), call.body());
                begun = upstream.begin();
                if (!begun.isEventStream()) {
                    body = upstream.whole(begun);
                }
            } catch (IOException lost) {
                return lost(lease, disconnected, last, lost);
            }
            if (begun.status() == 503 && elsewhere.getAsBoolean()) {
                lease.reportFailure();
                return Optional.empty();
            }
            watch.firstByte(Duration.ofNanos(System.nanoTime() - begin));
            begun.header("retry-after").ifPresent(value -> call.header("Retry-After", value));
            call.header(WORKER, lease.workerId());
            if (begun.isEventStream()) {
                return Optional.of(stream(call, lease, upstream, disconnected));
            }
            lease.close(); // the worker has done its part, and whoever has the answer may need its place
            call.respond(begun.status(), begun.type(), body);
            return Optional.of(begun.status() < 400 ? RelayOutcome.OK : RelayOutcome.REFUSED);
        }
    }

    private static Optional<RelayOutcome> lost(
            WorkerLease lease, AtomicBoolean disconnected, boolean last, IOException why) throws IOException {
        if (disconnected.get()) {
            throw new IOException("the client left", why);
        }
        lease.reportFailure();
        if (last) {
            throw new PoolException(
                    PoolError.WORKER_LOST,
                    true,
                    lease.workerId() + ": was lost before it answered: " + why.getMessage());
        }
        return Optional.empty();
    }

    private static Map<String, String> headers(Call call, WorkerLease lease) {
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Content-Type", call.head().header("content-type").orElse("application/json"));
        headers.put(Call.CORRELATION, call.correlation());
        String own = lease.key().isEmpty() ? "" : "Bearer " + lease.key();
        String key = own.isEmpty() ? call.head().header("authorization").orElse("") : own;
        if (!key.isEmpty()) {
            headers.put("Authorization", key);
        }
        return headers;
    }

    private static RelayOutcome stream(Call call, WorkerLease lease, Upstream upstream, AtomicBoolean disconnected)
            throws IOException {
        ResponseStream client = call.eventStream();
        boolean done = false;
        while (true) {
            Optional<byte[]> chunk;
            try {
                chunk = upstream.chunk();
            } catch (IOException lost) {
                if (!done && !disconnected.get()) {
                    lease.reportFailure();
                    client.write(broken(lease));
                }
                client.finish();
                return done ? RelayOutcome.OK : disconnected.get() ? RelayOutcome.CANCELLED : RelayOutcome.LOST;
            }
            if (chunk.isEmpty()) {
                client.finish();
                return RelayOutcome.OK;
            }
            lease.touch();
            done = endsTheAnswer(chunk.get());
            if (done) {
                lease.close();
            }
            client.write(chunk.get());
        }
    }

    private static boolean endsTheAnswer(byte[] event) {
        int end = event.length;
        while (end > 0 && event[end - 1] == '\n') {
            end--;
        }
        int from = end - DONE.length;
        return from >= 0 && Arrays.equals(event, from, end, DONE, 0, DONE.length);
    }

    private static byte[] broken(WorkerLease lease) {
        PoolException failure = new PoolException(
                PoolError.WORKER_LOST, true, lease.workerId() + ": was lost within its answer; ask again");
        return ("data: " + body(failure) + "\n\n").getBytes(StandardCharsets.UTF_8);
    }
}
