package dev.starforge.serve.pool.supervise;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.api.StartSecret;
import dev.starforge.serve.pool.config.RestartPolicy;
import dev.starforge.serve.pool.process.ChildProcess;
import dev.starforge.serve.pool.process.ExitStatus;
import dev.starforge.serve.pool.process.ProcessLauncher;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import dev.starforge.serve.pool.worker.WorkerClient;
import dev.starforge.serve.pool.worker.WorkerCommand;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.serve.pool.worker.WorkerOverloadedException;
import dev.starforge.serve.pool.worker.WorkerSpec;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.function.BooleanSupplier;

/** Processes, workers and a time of a test's own: a week of supervision passes in a moment, the same each time. */
final class FakeWorld implements ProcessLauncher, WorkerClient {
    static final WorkerSpec SPEC = new WorkerSpec("coder", Path.of("coder.gguf"), "cpu", Map.of(), 1000, 100);
    private static final Duration TICK = Duration.ofMillis(100);

    final List<FakeChild> children = new ArrayList<>();
    final List<PoolEvent> events = new ArrayList<>();
    final List<String> shutdowns = new ArrayList<>();
    private final Path state;
    private long nanos = 1_000_000_000_000L;
    private Duration clockIsOff = Duration.ZERO;
    private long nextPid = 100;
    int canaries;
    boolean refuseToStart;
    boolean canTerminate = true;

    FakeWorld(Path state) {
        this.state = state;
    }

    /** A process that does what a test says. */
    final class FakeChild implements ChildProcess {
        final long pid = nextPid++;
        final List<String> command;
        final StartSecret secret;
        final URI uri = URI.create("http://127.0.0.1:" + (40_000 + pid));
        int terminations;
        int kills;
        boolean obeys = true;
        boolean answers = true;
        boolean computes = true;
        boolean overloaded;
        boolean queueFull;
        boolean breaks;
        boolean fillsTheHeap;
        long running;
        long generated;
        String status = "ok";
        List<String> names = List.of("coder");
        String workerId;
        Optional<ExitStatus> exit = Optional.empty();

        FakeChild(List<String> command, String input) {
            this.command = command;
            secret = StartSecret.of(input.strip());
            workerId = argument("--worker-id");
        }

        String argument(String name) {
            return command.get(command.indexOf(name) + 1);
        }

        String callbackKey() {
            return secret.callbackKey();
        }

        void exits(int code) {
            exit = Optional.of(new ExitStatus(code));
        }

        @Override
        public long pid() {
            return pid;
        }

        @Override
        public String identity() {
            return "tick " + pid;
        }

        @Override
        public Optional<ExitStatus> exit() {
            return exit;
        }

        @Override
        public boolean canTerminate() {
            return canTerminate;
        }

        @Override
        public void terminate() {
            assertThat(exit).as("a dead process is not signalled").isEmpty();
            terminations++;
            if (obeys) {
                exits(0);
            }
        }

        @Override
        public void kill() {
            assertThat(exit).as("a dead process is not signalled").isEmpty();
            kills++;
            exits(137);
        }
    }

    Supervisor supervisor() throws IOException {
        return supervisor(RestartPolicy.DEFAULT);
    }

    Supervisor supervisor(RestartPolicy policy) throws IOException {
        WorkerCommand command =
                new WorkerCommand(List.of("starforge"), Optional.empty(), () -> URI.create("http://127.0.0.1:9200"));
        return new Supervisor(new SupervisorContext(
                state,
                this,
                this,
                command,
                PoolTimeouts.DEFAULT,
                policy,
                () -> nanos,
                clock(),
                new Random(7),
                Runnable::run,
                events::add));
    }

    private Clock clock() {
        return new Clock() {
            @Override
            public ZoneId getZone() {
                return ZoneOffset.UTC;
            }

            @Override
            public Clock withZone(ZoneId zone) {
                return this;
            }

            @Override
            public Instant instant() {
                return Instant.EPOCH.plusNanos(nanos).plus(clockIsOff);
            }
        };
    }

    /** Sets the clock. */
    void setClock(Duration by) {
        clockIsOff = clockIsOff.plus(by);
    }

    void pass(Supervisor supervisor, Duration time) {
        for (long left = time.toMillis(); left > 0; left -= TICK.toMillis()) {
            nanos += TICK.toNanos();
            supervisor.tick();
        }
    }

    /** How long until something is so, at most an hour. */
    Duration until(Supervisor supervisor, BooleanSupplier so) {
        long begin = nanos;
        while (!so.getAsBoolean()) {
            assertThat(Duration.ofNanos(nanos - begin)).isLessThan(Duration.ofHours(1));
            pass(supervisor, TICK);
        }
        return Duration.ofNanos(nanos - begin);
    }

    FakeChild last() {
        return children.getLast();
    }

    /** A worker that is ready; its id. */
    String ready(Supervisor supervisor) {
        String id = supervisor.start(SPEC, Optional.empty());
        callBack(supervisor);
        return id;
    }

    /** The process that was started last says that it is ready. */
    void callBack(Supervisor supervisor) {
        supervisor.calledBack(last().argument("--worker-id"), last().callbackKey(), last().uri);
        pass(supervisor, TICK);
    }

    static WorkerView view(Supervisor supervisor, String id) {
        return supervisor.views().stream()
                .filter(view -> view.id().equals(id))
                .findFirst()
                .orElseThrow();
    }

    static WorkerState state(Supervisor supervisor, String id) {
        return view(supervisor, id).state();
    }

    @Override
    public ChildProcess start(List<String> command, String input, Path log) throws IOException {
        if (refuseToStart) {
            throw new IOException("Cannot run program");
        }
        FakeChild child = new FakeChild(command, input);
        children.add(child);
        return child;
    }

    @Override
    public Optional<ChildProcess> find(long pid, String identity) {
        return children.stream()
                .filter(child -> child.pid == pid
                        && child.exit.isEmpty()
                        && child.identity().equals(identity))
                .map(ChildProcess.class::cast)
                .findFirst();
    }

    private FakeChild at(WorkerEndpoint endpoint) throws IOException {
        URI worker = endpoint.uri();
        FakeChild found = children.stream()
                .filter(child -> child.uri.equals(worker) && child.exit.isEmpty())
                .findFirst()
                .orElseThrow(() -> new IOException("Connection refused"));
        if (!found.answers) {
            throw new IOException("Read timed out");
        }
        if (found.overloaded) {
            throw new WorkerOverloadedException("status 503");
        }
        if (found.fillsTheHeap) {
            throw new OutOfMemoryError("Java heap space");
        }
        if (found.breaks) {
            throw new IllegalStateException("an unexpected answer");
        }
        String other = endpoint.secret().map(StartSecret::text).orElse(found.secret.text());
        if (!found.secret.text().equals(other)) {
            throw new IOException("another program answered");
        }
        return found;
    }

    @Override
    public WorkerHealth health(WorkerEndpoint worker) throws IOException {
        FakeChild child = at(worker);
        return new WorkerHealth(
                child.status,
                child.workerId,
                "coder",
                child.names,
                "cpu",
                500,
                child.running,
                child.generated,
                List.of("completion"),
                List.of());
    }

    @Override
    public void canary(WorkerEndpoint worker) throws IOException {
        canaries++;
        if (at(worker).queueFull) {
            throw new WorkerOverloadedException("/health/deep: status 429");
        }
        if (!at(worker).computes) {
            throw new IOException("/health/deep: expected success, got 503");
        }
    }

    @Override
    public void shutdown(WorkerEndpoint worker) throws IOException {
        at(worker).exits(0);
        shutdowns.add(worker.toString());
    }
}
