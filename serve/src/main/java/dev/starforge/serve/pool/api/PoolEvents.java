package dev.starforge.serve.pool.api;

import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.serve.pool.supervise.PoolEvent;
import dev.starforge.text.json.Jackson;
import java.time.Clock;
import java.util.Locale;
import java.util.function.Consumer;

/** Says what happens to workers: to the log, the metrics, and whoever listens to {@code /v2/events}. */
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
    public void accept(PoolEvent happening) {
        metrics.happened(happening);
        String kind = happening.kind().name().toLowerCase(Locale.ROOT);
        log.line(level(happening.kind()), "pool", kind, happening.worker())
                .with("worker_id", happening.worker())
                .log(happening.worker() + " " + kind.replace('_', ' ') + ": " + happening.detail());
        hub.publish(Jackson.object()
                .put("type", kind)
                .put("worker_id", happening.worker())
                .put("status", happening.state().name())
                .put("detail", happening.detail())
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
