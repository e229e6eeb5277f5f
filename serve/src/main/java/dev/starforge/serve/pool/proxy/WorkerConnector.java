package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.api.StartSecret;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerOverloadedException;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Map;
import java.util.random.RandomGenerator;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * Connects to workers. A worker that the pool started proves on each connection that it knows the secret of its start, before the pool
 * sends a key or a prompt: when a worker has died, any program of this machine can listen on its port.
 */
public final class WorkerConnector {
    private static final String HEALTH = "/health";
    private static final int NONCE_BYTES = 16;

    private final RandomGenerator random;

    /** @param random unpredictable; must be thread-safe */
    public WorkerConnector(RandomGenerator random) {
        this.random = random;
    }

    /**
     * A connection to a worker for one request.
     *
     * @param time until when the worker must have proved its identity
     * @throws WorkerOverloadedException if the worker answers on this connection only what it always answers
     */
    WorkerConnection connect(WorkerEndpoint worker, Duration time) throws IOException {
        WorkerConnection connection = WorkerConnection.open(worker.uri());
        try {
            connection.withDeadline(time);
            if (worker.secret().isPresent()) {
                prove(connection, worker, worker.secret().get(), false);
            }
            return connection.withoutDeadline();
        } catch (IOException | RuntimeException e) {
            connection.close();
            throw e;
        }
    }

    /** The health of a worker, after the proof of its identity. */
    JsonNode health(WorkerEndpoint worker, Duration time) throws IOException {
        try (WorkerConnection connection = WorkerConnection.open(worker.uri()).withDeadline(time)) {
            return worker.secret().isPresent()
                    ? prove(connection, worker, worker.secret().get(), true)
                    : health(connection, HEALTH, true);
        }
    }

    private JsonNode prove(WorkerConnection connection, WorkerEndpoint worker, StartSecret secret, boolean last)
            throws IOException {
        byte[] bytes = new byte[NONCE_BYTES];
        random.nextBytes(bytes);
        String nonce = HexFormat.of().formatHex(bytes);
        JsonNode health = health(connection, HEALTH + "?nonce=" + nonce, last);
        String expected = secret.proof(nonce, WorkerConnection.port(worker.uri()));
        if (!StartSecret.areEqual(expected, health.path("proof").asString(""))) {
            throw new IOException("expected the worker that the pool started, but another program answered");
        }
        return health;
    }

    private static JsonNode health(WorkerConnection connection, String target, boolean last) throws IOException {
        connection.send("GET", target, Map.of(), new byte[0], last);
        ResponseHead head = connection.readHead();
        byte[] body = connection.readBody(head, WorkerConnection.MAX_HEALTH);
        if (head.status() == 503 || head.status() == 429) { // a worker that answers reports every state with 200
            throw new WorkerOverloadedException("the worker is overloaded: status " + head.status());
        }
        if (head.status() != 200) {
            throw new IOException("expected status 200, got " + head.status());
        }
        if (!last && head.closes()) {
            throw new WorkerOverloadedException("the worker is overloaded: it closes the connection after its health");
        }
        try {
            return Jackson.JSON.readTree(body);
        } catch (JacksonException e) {
            throw new IOException("expected JSON", e);
        }
    }
}
