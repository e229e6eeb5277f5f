package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.http.ResponseStream;
import dev.starforge.serve.pool.route.RoutingKey;
import dev.starforge.serve.pool.route.WorkerRouting;
import dev.starforge.serve.pool.start.OnDemandStarter;
import dev.starforge.serve.pool.supervise.WorkerLease;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerOverloadedException;
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
 * Relays requests to workers and streams the responses back, event by event. If a worker fails before the client has received a byte,
 * the request goes to another worker. After the first byte, the stream ends with a retriable error.
 */
public final class Relay {
    /** The worker that responded. */
    public static final String WORKER = "X-Worker-ID";

    private static final int ATTEMPTS = 4;

    /** Until when a worker must have proved its identity; it takes a millisecond, but the machine may be busy. */
    private static final Duration PROOF_TIME = Duration.ofSeconds(5);

    private static final byte[] DONE = "[DONE]".getBytes(StandardCharsets.US_ASCII);
    private static final List<String> PATHS =
            List.of("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/infill", "/tokenize", "/detokenize");

    private final OnDemandStarter starter;
    private final WorkerConnector connector;
    private final TenantNames tenants;
    private final WorkerRouting routing;
    private final RelayListener listener;

    public Relay(
            OnDemandStarter starter,
            WorkerConnector connector,
            TenantNames tenants,
            WorkerRouting routing,
            RelayListener listener) {
        this.starter = starter;
        this.connector = connector;
        this.tenants = tenants;
        this.routing = routing;
        this.listener = listener;
    }

    /** The result of a relayed request. */
    public enum RelayOutcome {
        OK,
        REFUSED,
        CANCELLED,
        LOST
    }

    /** Receives the events of relayed requests, for metrics. */
    public interface RelayListener {
        void begun();

        void ended(RelayOutcome outcome);

        void retried();

        /** Time from the arrival of a request to the first byte of its response. */
        void firstByte(Duration time);
    }

    public List<ApiRoute> routes() {
        return PATHS.stream()
                .map(path -> new ApiRoute("POST", path, Api.OPENAI, Execution.RELAY, this::relay))
                .toList();
    }

    private void relay(Call call) throws IOException, InterruptedException {
        listener.begun();
        RelayOutcome outcome = RelayOutcome.CANCELLED;
        try {
            outcome = relayWithRetries(call);
        } catch (PoolException e) {
            outcome = e.isRetriable() ? RelayOutcome.LOST : RelayOutcome.REFUSED;
            if (e.isRetriable()) {
                call.header("Retry-After", Long.toString(e.retryAfter()));
            }
            call.respond(e.code().status(), body(e));
        } finally {
            listener.ended(outcome);
        }
    }

    /** The pool's error and OpenAI's error in one object, for clients of either API. */
    private static ObjectNode body(PoolException failure) {
        ObjectNode body =
                Api.error(failure.code().status(), failure.code().name(), String.valueOf(failure.getMessage()));
        body.setAll(failure.json());
        return body;
    }

    /** A relayed request: whether its client has disconnected, and when it arrived. */
    private record Attempt(Call call, WorkerLease lease, AtomicBoolean disconnected, boolean last, long arrived) {}

    private RelayOutcome relayWithRetries(Call call) throws IOException, InterruptedException {
        long arrived = System.nanoTime();
        RoutingKey key = RoutingKey.of(call.body());
        call.parsed();
        String model = starter.model(key.model());
        String scope = call.tenant() + "\n" + model;
        Set<String> failed = new HashSet<>();
        AtomicBoolean disconnected = new AtomicBoolean();
        call.onDisconnect(() -> disconnected.set(true));
        for (int i = 1; ; i++) {
            boolean last = i == ATTEMPTS;
            try (WorkerLease lease =
                    starter.lease(model, failed, candidates -> routing.choose(scope, key.text(), candidates))) {
                failed.add(lease.incarnation());
                BooleanSupplier hasOther = () -> !last && starter.hasOther(model, failed);
                Optional<RelayOutcome> outcome =
                        attempt(new Attempt(call, lease, disconnected, last, arrived), hasOther);
                if (outcome.isPresent()) {
                    return outcome.get();
                }
                listener.retried();
            }
        }
    }

    /** Sends the request to one worker. Empty if the client has received nothing and another worker should be tried. */
    private Optional<RelayOutcome> attempt(Attempt attempt, BooleanSupplier hasOther) throws IOException {
        Call call = attempt.call;
        WorkerLease lease = attempt.lease;
        WorkerConnection opened;
        try {
            opened = connector.connect(lease.endpoint(), PROOF_TIME);
        } catch (WorkerOverloadedException e) {
            return overloaded(attempt, hasOther);
        } catch (IOException e) {
            return lost(attempt, e);
        }
        try (WorkerConnection worker = opened) {
            call.onDisconnect(worker::close);
            lease.onLost(worker::close);
            ResponseHead response;
            byte[] body = {};
            try {
                worker.send(call.head().method(), target(call), headers(call, lease), call.body(), true);
                response = worker.readHead();
                if (!response.isStreamed()) {
                    body = worker.readBody(response, WorkerConnection.MAX_BODY);
                }
            } catch (IOException e) {
                return lost(attempt, e);
            }
            report(lease, response);
            if (response.status() == 503 && hasOther.getAsBoolean()) {
                return Optional.empty();
            }
            call.releaseBody(); // it is not sent again, and the response may take minutes
            listener.firstByte(Duration.ofNanos(System.nanoTime() - attempt.arrived));
            response.retryAfter().ifPresent(value -> call.header("Retry-After", value));
            call.header(WORKER, lease.workerId());
            if (response.isEventStream()) {
                return Optional.of(stream(attempt, worker));
            }
            if (response.isStreamed()) {
                return Optional.of(copy(attempt, worker, response.contentType()));
            }
            lease.close(); // before the response, after which the client may send the next request
            call.respond(response.status(), response.contentType(), body);
            return Optional.of(response.status() < 400 ? RelayOutcome.OK : RelayOutcome.REFUSED);
        }
    }

    private static void report(WorkerLease lease, ResponseHead response) {
        lease.reportResponse();
        if (response.status() == 500 || response.status() == 503) {
            lease.reportFailure();
        }
    }

    /** The worker has no room for a connection: as if it had responded with 503. */
    private static Optional<RelayOutcome> overloaded(Attempt attempt, BooleanSupplier hasOther) {
        if (hasOther.getAsBoolean()) {
            return Optional.empty();
        }
        throw new PoolException(
                PoolError.WORKER_OVERLOADED,
                true,
                attempt.lease.workerId() + ": accepts no more connections; retry the request");
    }

    private static String target(Call call) {
        String query = call.head().query();
        return call.head().path() + (query.isEmpty() ? "" : "?" + query);
    }

    private static Optional<RelayOutcome> lost(Attempt attempt, IOException cause) throws IOException {
        if (attempt.disconnected.get()) {
            throw new IOException("the client disconnected", cause);
        }
        attempt.lease.reportUnanswered(String.valueOf(cause.getMessage()));
        if (attempt.last) {
            throw new PoolException(
                    PoolError.WORKER_LOST,
                    true,
                    attempt.lease.workerId() + ": failed before it responded: " + cause.getMessage());
        }
        return Optional.empty();
    }

    /** The pool's own key, and on whose behalf it sends the request: a client's key stays here. */
    private Map<String, String> headers(Call call, WorkerLease lease) {
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Content-Type", call.head().header("content-type").orElse("application/json"));
        headers.put(Call.CORRELATION, call.correlation());
        String key = lease.endpoint().key();
        if (!key.isEmpty()) {
            headers.put("Authorization", "Bearer " + key);
            headers.put(AccessControl.TENANT, tenants.name(call.tenant()));
        }
        return headers;
    }

    private static RelayOutcome stream(Attempt attempt, WorkerConnection worker) throws IOException {
        WorkerLease lease = attempt.lease;
        ResponseStream client = attempt.call.eventStream();
        boolean done = false;
        while (true) {
            Optional<byte[]> event;
            try {
                event = worker.readChunk();
                if (hasBareReturn(event)) {
                    throw WorkerConnection.malformed("no CR without LF");
                }
            } catch (IOException e) {
                boolean disconnected = attempt.disconnected.get();
                if (!done && !disconnected) {
                    lease.reportFailure();
                    client.write(lostEvent(lease));
                }
                client.finish();
                return done ? RelayOutcome.OK : disconnected ? RelayOutcome.CANCELLED : RelayOutcome.LOST;
            }
            if (event.isEmpty()) {
                client.finish();
                return RelayOutcome.OK;
            }
            lease.touch();
            done = isLastEvent(event.get());
            if (done) {
                lease.close();
            }
            client.write(event.get());
        }
    }

    /** Relays a long response that has no events; if the worker fails, the response ends in the middle. */
    private static RelayOutcome copy(Attempt attempt, WorkerConnection worker, String type) throws IOException {
        ResponseStream client = attempt.call.stream(type);
        while (true) {
            Optional<byte[]> part;
            try {
                part = worker.readChunk();
            } catch (IOException e) {
                if (!attempt.disconnected.get()) {
                    attempt.lease.reportFailure();
                }
                throw e;
            }
            if (part.isEmpty()) {
                attempt.lease.close();
                client.finish();
                return RelayOutcome.OK;
            }
            attempt.lease.touch();
            client.write(part.get());
        }
    }

    /** A CR alone ends a line of an event for some clients, and not for others. */
    private static boolean hasBareReturn(Optional<byte[]> event) {
        byte[] bytes = event.orElse(new byte[0]);
        for (int i = 0; i < bytes.length; i++) {
            if (bytes[i] == '\r' && (i + 1 == bytes.length || bytes[i + 1] != '\n')) {
                return true;
            }
        }
        return false;
    }

    private static boolean isLastEvent(byte[] event) {
        int end = event.length;
        while (end > 0 && event[end - 1] == '\n') {
            end--;
        }
        int from = end - DONE.length;
        return from >= 0 && Arrays.equals(event, from, end, DONE, 0, DONE.length);
    }

    private static byte[] lostEvent(WorkerLease lease) {
        PoolException failure = new PoolException(
                PoolError.WORKER_LOST, true, lease.workerId() + ": failed during its response; retry the request");
        return ("data: " + body(failure) + "\n\n").getBytes(StandardCharsets.UTF_8);
    }
}
