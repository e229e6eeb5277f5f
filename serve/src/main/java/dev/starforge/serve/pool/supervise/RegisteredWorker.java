package dev.starforge.serve.pool.supervise;

import java.net.URI;
import java.util.List;
import java.util.Optional;

/** A worker that somebody else started, here or elsewhere: watched and used, never signalled, never started again. */
final class RegisteredWorker extends PoolWorker {
    private final URI uri;
    private final String key;
    private int returns;

    RegisteredWorker(String id, Supervisor supervisor, Surroundings around, URI uri, String key) {
        super(id, supervisor, around);
        this.uri = uri;
        this.key = key;
    }

    @Override
    String incarnation() {
        return id() + "/" + returns;
    }

    @Override
    Optional<URI> uri() {
        return Optional.of(uri);
    }

    @Override
    String key() {
        return key;
    }

    @Override
    String ownKey() {
        return key.isEmpty() ? around.command().firstKey() : key;
    }

    @Override
    void tick() {
        check(uri);
    }

    @Override
    void healthy(Health good) {
        if (state() != WorkerState.READY && state() != WorkerState.DRAINING) {
            become(WorkerState.READY, Happening.Kind.READY, "it serves " + good.model());
        }
    }

    @Override
    void unhealthy(String why) {
        blame(why);
        if (state() != WorkerState.FAILED) {
            become(WorkerState.FAILED, Happening.Kind.UNREACHABLE, why);
            returns++;
            cutLeases();
        }
    }

    @Override
    boolean serves(String model) {
        return health().filter(
                        said -> said.model().equals(model) || said.adapters().contains(model))
                .isPresent();
    }

    void drain() {
        become(WorkerState.DRAINING, Happening.Kind.DRAINING, "it gets no more requests");
    }

    private String advice() {
        return state() == WorkerState.FAILED ? "It is used again when it answers; see to it where it runs." : "";
    }

    @Override
    WorkerView view() {
        return new WorkerView(
                id(),
                false,
                health().map(Health::model).orElse(""),
                health().map(Health::device).orElse(""),
                shownState(),
                0,
                health().map(Health::memory).orElse(0L),
                uri.toString(),
                Optional.empty(),
                0,
                new WorkerFailure("", reason(), failedAt(), -1, advice()),
                load(),
                health().map(Health::capabilities).orElse(List.of()),
                health().map(Health::adapters).orElse(List.of()));
    }
}
