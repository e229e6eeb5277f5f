package dev.starforge.serve.pool.worker;

import dev.starforge.text.json.Jackson;
import java.util.Map;
import java.util.TreeMap;
import tools.jackson.databind.node.ObjectNode;

/** An error of the pool API. */
public final class PoolException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final PoolError code;
    private final boolean retriable;
    private final transient Map<String, Object> details;

    /** @param retriable whether the same request may succeed later */
    public PoolException(PoolError code, boolean retriable, String message) {
        this(code, retriable, message, Map.of());
    }

    public PoolException(PoolError code, boolean retriable, String message, Map<String, Object> details) {
        super(message, null, false, false);
        this.code = code;
        this.retriable = retriable;
        this.details = new TreeMap<>(details);
    }

    public PoolError code() {
        return code;
    }

    public boolean isRetriable() {
        return retriable;
    }

    /** Seconds after which a retry may succeed. */
    public long retryAfter() {
        return details.get("retry_after_s") instanceof Long seconds ? seconds : 1;
    }

    /** {@code error_code, message, retriable, details}. */
    public ObjectNode json() {
        ObjectNode body = Jackson.object()
                .put("error_code", code.name())
                .put("message", String.valueOf(getMessage()))
                .put("retriable", retriable);
        ObjectNode more = body.putObject("details");
        details.forEach((name, value) -> {
            switch (value) {
                case Long number -> more.put(name, number);
                default -> more.put(name, value.toString());
            }
        });
        return body;
    }
}
