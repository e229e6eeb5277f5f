package dev.starforge.serve.pool.api;

import dev.starforge.data.Jackson;
import dev.starforge.serve.log.Narration;
import dev.starforge.serve.log.Narration.Level;
import dev.starforge.serve.pool.supervise.Happening;
import java.time.Clock;
import java.util.Locale;
import java.util.function.Consumer;

/** Says what happens to workers: to the log, the metrics, and whoever listens to {@code /v2/events}. */
public final class Happenings implements Consumer<Happening> {
    private final Narration log;
    private final PoolMetrics metrics;
    private final Clock clock;
    private final EventHub hub = new EventHub();

    public Happenings(Narration log, PoolMetrics metrics, Clock clock) {
        this.log = log;
        this.metrics = metrics;
        this.clock = clock;
    }

    EventHub hub() {
        return hub;
    }

    @Override
    public void accept(Happening happening) {
        metrics.happened(happening);
        String kind = happening.kind().name().toLowerCase(Locale.ROOT);
        log.line(level(happening.kind()), "pool", kind, happening.worker())
                .with("worker_id", happening.worker())
                .say(happening.worker() + " " + kind.replace('_', ' ') + ": " + happening.detail());
        hub.tell(Jackson.object()
                .put("type", kind)
                .put("worker_id", happening.worker())
                .put("status", happening.state().name())
                .put("detail", happening.detail())
                .put("time", clock.instant().toString())
                .toString());
    }

    private static Level level(Happening.Kind kind) {
        return switch (kind) {
            case START_FAILED, START_TIMEOUT, EXITED, UNREACHABLE -> Level.WARN;
            case STARTING, READY, RESTARTING, DRAINING, STOPPED, ADOPTED, REGISTERED -> Level.INFO;
        };
    }
}
