package dev.starforge.serve.pool.api;

import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.text.json.Jackson;
import java.time.Clock;
import java.util.Locale;
import java.util.function.Consumer;

/** Publishes worker events to the log, the metrics and {@code /v2/events}. */
public final class PoolEvents implements Consumer<PoolEvent> {
    private final EventLog log;
    private final PoolMetrics metrics;
    private final Clock clock;
    private final EventHub hub = new EventHub();

    public PoolEvents(EventLog log, PoolMetrics metrics, Clock clock) {
        this.log = log;
        this.metrics = metrics;
        this.clock = clock;
    }

    EventHub hub() {
        return hub;
    }

    @Override
    public void accept(PoolEvent event) {
        metrics.count(event);
        String kind = event.kind().name().toLowerCase(Locale.ROOT);
        log.line(level(event.kind()), "pool", kind, event.worker())
                .with("worker_id", event.worker())
                .log(event.worker() + " " + kind.replace('_', ' ') + ": " + event.detail());
        hub.publish(Jackson.object()
                .put("type", kind)
                .put("worker_id", event.worker())
                .put("status", event.state().name())
                .put("detail", event.detail())
                .put("time", clock.instant().toString())
                .toString());
    }

    private static LogLevel level(PoolEvent.PoolEventKind kind) {
        return switch (kind) {
            case START_FAILED, START_TIMEOUT, EXITED, UNREACHABLE -> LogLevel.WARN;
            case STARTING, READY, RESTARTING, DRAINING, STOPPED, ADOPTED, REGISTERED -> LogLevel.INFO;
        };
    }
}
