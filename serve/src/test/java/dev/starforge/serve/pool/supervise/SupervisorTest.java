package dev.starforge.serve.pool.supervise;

import static dev.starforge.serve.pool.supervise.FakeWorld.SPEC;
import static dev.starforge.serve.pool.supervise.FakeWorld.state;
import static dev.starforge.serve.pool.supervise.FakeWorld.view;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.serve.pool.supervise.FakeWorld.FakeChild;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerSpec;
import dev.starforge.serve.pool.worker.WorkerState;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What becomes of workers, in a time of its own. */
final class SupervisorTest {
    private static final String SOME_SECRET = "0123456789abcdef";

    @TempDir
    private Path folder;

    private FakeWorld world;
    private Supervisor pool;

    @BeforeEach
    void open() throws IOException {
        world = new FakeWorld(folder);
        pool = world.supervisor();
    }

    @AfterEach
    void close() throws IOException {
        pool.close();
    }

    private Optional<WorkerLease> lease() {
        return pool.acquire("coder", Set.of(), List::getFirst);
    }

    private Duration restartAfter(String id, int code) {
        int count = world.children.size();
        world.last().exits(code);
        world.pass(pool, Duration.ofMillis(100));
        assertThat(state(pool, id)).isEqualTo(WorkerState.FAILED);
        return world.until(pool, () -> world.children.size() > count);
    }

    @Test
    void aWorkerIsReadyAfterItsCallbackAndAHealthCheck() {
        String id = pool.start(SPEC, Optional.empty());
        assertThat(state(pool, id)).isEqualTo(WorkerState.STARTING);
        assertThat(lease()).isEmpty();
        assertThat(pool.allocated("cpu")).isEqualTo(1000);
        world.last().status = "loading";
        world.callBack(pool);
        assertThat(state(pool, id)).isEqualTo(WorkerState.STARTING);
        world.last().status = "ok";
        world.pass(pool, Duration.ofSeconds(1));
        assertThat(state(pool, id)).isEqualTo(WorkerState.READY);
        try (WorkerLease lease = lease().orElseThrow()) {
            assertThat(lease.endpoint().uri()).isEqualTo(world.last().uri);
            assertThat(state(pool, id)).isEqualTo(WorkerState.BUSY);
        }
        assertThat(state(pool, id)).isEqualTo(WorkerState.READY);
    }

    @Test
    void crashesAreCountedAndTheBackoffDoublesToAMinute() {
        String id = world.ready(pool);
        double expected = 1;
        for (int i = 0; i < 9; i++) {
            world.pass(pool, Duration.ofSeconds(11)); // later than what counts as a failed start
            double seconds = restartAfter(id, 134).toMillis() / 1000.0;
            // ten percent of jitter, and it is looked at ten times a second
            assertThat(seconds).isCloseTo(expected, within(0.1 * expected + 0.2));
            expected = Math.min(60, 2 * expected);
            world.callBack(pool);
        }
        assertThat(view(pool, id).restarts()).isEqualTo(9);
        assertThat(view(pool, id).failure().exit()).isEqualTo("134: SIGABRT");
        world.pass(pool, Duration.ofSeconds(301));
        assertThat(restartAfter(id, 1)).isLessThan(Duration.ofMillis(1300));
    }

    @ParameterizedTest
    @CsvSource({"0, STOPPED, '0: drained'", "2, FAILED, '2: usage error'", "3, FAILED, '3: model rejected'"})
    void permanentFailuresAreNotRestarted(int code, WorkerState end, String text) {
        String id = world.ready(pool);
        world.last().exits(code);
        world.pass(pool, Duration.ofMinutes(10));
        assertThat(world.children).hasSize(1);
        assertThat(state(pool, id)).isEqualTo(end);
        assertThat(view(pool, id).failure().exit()).isEqualTo(text);
        assertThat(pool.allocated("cpu")).isZero();
    }

    @Test
    void aFailureHasReasonTimeAndAdvice() throws IOException {
        String id = pool.start(SPEC, Optional.empty());
        Files.writeString(
                folder.resolve("logs").resolve(id + ".log"),
                "starforge: coder.gguf: expected 7 tensors, got 6\n{\"human\":\"ended\"}\n");
        world.last().exits(3);
        world.pass(pool, Duration.ofMillis(100));
        String why = "3: model rejected (coder.gguf: expected 7 tensors, got 6)";
        assertThatThrownBy(() -> pool.isExpected("coder", Set.of()))
                .isInstanceOfSatisfying(
                        PoolException.class,
                        failure -> assertThat(failure.isRetriable()).isFalse())
                .hasMessageContaining("coder: its worker " + id + " cannot be started, since 1970-01-01T00:16:40.1")
                .hasMessageContaining(why + ". ")
                .hasMessageContaining("see logs/" + id
                        + ".log in the state folder for the error, then POST /v2/workers/" + id + "/reload");
        world.pass(pool, Duration.ofSeconds(301));
        assertThat(pool.isExpected("coder", Set.of()))
                .as("asked for later, another one is tried")
                .isFalse();
        String mended = pool.start(SPEC, Optional.of(id));
        pool.calledBack(mended, world.last().callbackKey(), world.last().uri);
        world.pass(pool, Duration.ofMillis(200));
        assertThat(state(pool, id)).isEqualTo(WorkerState.STOPPED);
        assertThat(view(pool, mended).failure().since()).isEmpty();
    }

    @Test
    void sigkillIsReportedAsOutOfMemory() {
        String id = world.ready(pool);
        world.last().exits(137);
        world.pass(pool, Duration.ofMillis(100));
        assertThat(view(pool, id).failure().exit()).contains("137", "out of memory");
        assertThat(pool.allocated("cpu")).as("it comes back").isEqualTo(1000);
    }

    @Test
    void theBreakerOpensAfterFiveFailedStartsAndAllowsOneTrial() {
        String id = pool.start(SPEC, Optional.empty());
        for (int i = 0; i < 4; i++) {
            assertThat(restartAfter(id, 1)).isLessThan(Duration.ofSeconds(10));
        }
        for (int i = 0; i < 2; i++) {
            world.last().exits(1);
            world.pass(pool, Duration.ofMillis(100));
            assertThatThrownBy(() -> pool.isExpected("coder", Set.of()))
                    .isInstanceOf(PoolException.class)
                    .hasMessageContaining("cannot be started")
                    .hasMessageContaining("The next attempt is in 300 s.");
            int count = world.children.size();
            Duration open = world.until(pool, () -> world.children.size() > count);
            assertThat(open.toSeconds()).isBetween(299L, 301L);
        }
        world.callBack(pool);
        world.pass(pool, Duration.ofSeconds(11));
        assertThat(restartAfter(id, 1)).as("it was ready for long enough").isLessThan(Duration.ofSeconds(70));
    }

    @Test
    void anExitSoonAfterReadyIsAFailedStart() {
        String id = world.ready(pool);
        for (int i = 0; i < 5; i++) {
            world.pass(pool, Duration.ofSeconds(9));
            world.last().exits(1);
            world.pass(pool, Duration.ofMillis(100));
            if (i < 4) {
                int count = world.children.size();
                world.until(pool, () -> world.children.size() > count);
                world.callBack(pool);
            }
        }
        assertThat(view(pool, id).failure().restartSeconds()).isGreaterThan(290);
    }

    @Test
    void atMostTenRestartsAMinute() {
        List<String> ids = new ArrayList<>();
        for (int i = 0; i < 15; i++) {
            ids.add(world.ready(pool));
        }
        world.pass(pool, Duration.ofSeconds(20));
        List.copyOf(world.children).forEach(child -> child.exits(1));
        world.pass(pool, Duration.ofSeconds(59));
        assertThat(world.children).hasSize(15 + 10);
        world.pass(pool, Duration.ofSeconds(10));
        assertThat(world.children).hasSize(15 + 15);
        assertThat(ids).allSatisfy(id -> assertThat(view(pool, id).restarts()).isEqualTo(1));
    }

    @Test
    void aHangingWorkerIsKilledAfterThreeFailedChecks() {
        String id = world.ready(pool);
        world.last().answers = false;
        Duration time = world.until(pool, () -> world.last().kills > 0);
        assertThat(time).isLessThanOrEqualTo(Duration.ofSeconds(31));
        world.pass(pool, Duration.ofMillis(100));
        assertThat(view(pool, id).failure().reason()).contains("3 health checks in a row", "Read timed out");
        assertThat(view(pool, id).failure().exit()).isEqualTo("killed by the pool (SIGKILL)");
        world.until(pool, () -> world.children.size() == 2);
    }

    @Test
    void theCanaryDetectsAFalseHealthReport() {
        String id = world.ready(pool);
        world.last().computes = false;
        Duration time = world.until(pool, () -> world.last().kills > 0);
        assertThat(time).isBetween(Duration.ofSeconds(60), Duration.ofSeconds(92));
        world.pass(pool, Duration.ofMillis(100));
        assertThat(view(pool, id).failure().reason()).contains("/health/deep");
    }

    @Test
    void theCanaryAlsoChecksAWorkerWhoseRequestsHang() {
        world.ready(pool);
        world.last().computes = false;
        world.last().running = 1;
        WorkerLease waiting = lease().orElseThrow();
        List<String> cut = new ArrayList<>();
        waiting.onLost(() -> cut.add("cut"));
        world.until(pool, () -> world.last().kills > 0);
        world.pass(pool, Duration.ofMillis(100));
        assertThat(cut).containsExactly("cut");
    }

    /** Its connections are taken by others, or it has too many requests: a restart would lose requests and win nothing. */
    @Test
    void anOverloadedWorkerIsNotKilled() {
        String id = world.ready(pool);
        world.last().overloaded = true;
        world.pass(pool, Duration.ofMinutes(10));
        assertThat(state(pool, id)).isEqualTo(WorkerState.READY);
        world.last().overloaded = false;
        world.last().answers = false;
        world.until(pool, () -> world.last().kills > 0);
    }

    /** Requests that fill the queue are rejected while the engine generates, and also when it hangs. */
    @Test
    void aFullQueueHidesNoHungEngine() {
        String id = world.ready(pool);
        world.last().queueFull = true;
        world.last().running = 8;
        for (int i = 0; i < 60; i++) {
            world.last().generated += 100;
            world.pass(pool, Duration.ofSeconds(10));
        }
        assertThat(state(pool, id)).isEqualTo(WorkerState.BUSY);
        assertThat(world.last().kills).isZero();
        Duration time = world.until(pool, () -> world.last().kills > 0);
        assertThat(time).isBetween(Duration.ofSeconds(30), Duration.ofSeconds(70));
    }

    /** Only progress clears the doubt about a worker whose requests fail. */
    @Test
    void aFullQueueClearsNoDoubt() throws Exception {
        String full = world.ready(pool);
        FakeChild child = world.last();
        child.queueFull = true;
        pool.start(SPEC, Optional.empty());
        world.callBack(pool);
        Set<String> candidates = new HashSet<>();
        Runnable acquire = () -> {
            candidates.clear();
            pool.acquire("coder", Set.of(), ready -> {
                        ready.forEach(candidate -> candidates.add(candidate.id()));
                        return ready.getFirst();
                    })
                    .orElseThrow()
                    .close();
        };
        pool.acquire(
                        "coder",
                        Set.of(),
                        ready -> ready.stream()
                                .filter(candidate -> candidate.id().equals(full))
                                .findFirst()
                                .orElseThrow())
                .orElseThrow()
                .reportFailure();
        world.pass(pool, Duration.ofSeconds(8));
        acquire.run();
        assertThat(candidates).doesNotContain(full).hasSize(1);
        child.generated = 1;
        world.pass(pool, Duration.ofSeconds(6));
        acquire.run();
        assertThat(candidates).contains(full).hasSize(2);
    }

    @Test
    void anUnexpectedAnswerCountsAsAMissAndChecksGoOn() {
        String id = world.ready(pool);
        world.last().breaks = true;
        world.pass(pool, Duration.ofSeconds(19));
        assertThat(state(pool, id)).isEqualTo(WorkerState.READY);
        world.last().breaks = false;
        world.pass(pool, Duration.ofMinutes(1));
        assertThat(world.last().kills).isZero();
        world.last().breaks = true;
        world.until(pool, () -> world.last().kills > 0);
    }

    @Test
    void aFullHeapEndsNoChecks() {
        String id = world.ready(pool);
        world.last().fillsTheHeap = true;
        for (int i = 0; i < 5; i++) {
            assertThatThrownBy(() -> world.pass(pool, Duration.ofSeconds(11)))
                    .as("on the thread of the check, which is the caller's here")
                    .isInstanceOf(OutOfMemoryError.class);
        }
        assertThat(state(pool, id)).isEqualTo(WorkerState.READY);
        world.last().fillsTheHeap = false;
        world.last().answers = false;
        world.until(pool, () -> world.last().kills > 0);
    }

    @Test
    void requestsWithoutAResponseEndAWorkerThatReportsBeingHealthy() {
        String id = world.ready(pool);
        for (int i = 0; i < 5; i++) {
            lease().orElseThrow().reportUnanswered("closed");
            world.pass(pool, Duration.ofSeconds(1));
            lease().orElseThrow().reportResponse();
        }
        List<WorkerLease> together = List.of(lease().orElseThrow(), lease().orElseThrow(), lease().orElseThrow());
        world.pass(pool, Duration.ofSeconds(1));
        together.forEach(each -> each.reportUnanswered("the machine stalled"));
        assertThat(world.last().kills).as("not three in a row").isZero();
        for (int i = 0; i < 2; i++) {
            world.pass(pool, Duration.ofSeconds(1));
            lease().orElseThrow().reportUnanswered("closed");
        }
        assertThat(world.last().kills).isEqualTo(1);
        world.pass(pool, Duration.ofMillis(100));
        assertThat(view(pool, id).failure().reason())
                .isEqualTo("3 requests in a row had no response, the last one: closed");
        world.until(pool, () -> world.children.size() == 2);
        world.callBack(pool);
        assertThat(lease()).as("and it is started again").isPresent();
    }

    @Test
    void aWorkerInDoubtIsUsedOnlyIfThereIsNoOther() {
        String doubtful = world.ready(pool);
        world.last().computes = false;
        lease().orElseThrow().reportUnanswered("closed");
        assertThat(lease().orElseThrow().workerId()).isEqualTo(doubtful);
        String other = world.ready(pool);
        for (int i = 0; i < 3; i++) {
            assertThat(lease().orElseThrow().workerId()).isEqualTo(other);
        }
    }

    @Test
    void aRequestWaitsForACheckOfItsWorkerAndNoLonger() {
        world.ready(pool);
        WorkerLease failed = lease().orElseThrow();
        Set<String> excluded = Set.of(failed.incarnation());
        world.last().computes = false;
        failed.reportUnanswered("closed");
        assertThat(pool.isExpected("coder", excluded)).as("it may be restarted").isTrue();
        Duration killed = world.until(pool, () -> world.last().kills > 0);
        assertThat(killed).as("a worker in doubt is checked sooner").isLessThan(Duration.ofSeconds(12));
        world.until(pool, () -> world.children.size() == 2);
        world.callBack(pool);
        WorkerLease second = lease().orElseThrow();
        second.reportUnanswered("closed");
        world.pass(pool, Duration.ofSeconds(1));
        assertThatThrownBy(() -> pool.isExpected("coder", Set.of(second.incarnation())))
                .isInstanceOfSatisfying(
                        PoolException.class,
                        failure -> assertThat(failure.code()).isEqualTo(PoolError.WORKER_LOST))
                .hasMessageContaining("did not respond to this request; there is no other");
    }

    @Test
    void aBusyWorkerThatGeneratesNeedsNoCanary() {
        world.ready(pool);
        world.last().running = 1;
        try (WorkerLease _ = lease().orElseThrow()) {
            for (int i = 0; i < 60; i++) {
                world.last().generated++;
                world.pass(pool, Duration.ofSeconds(5));
            }
            assertThat(world.canaries).isZero();
            world.pass(pool, Duration.ofSeconds(35));
            assertThat(world.canaries).isPositive();
        }
    }

    @Test
    void secretsAreInFilesOfTheOwnerAndNotInCommands() throws IOException {
        Path entry = folder.resolve("workers").resolve(world.ready(pool) + ".json");
        String secret = world.last().secret.text();
        assertThat(secret).hasSize(64);
        assertThat(String.join(" ", world.last().command))
                .doesNotContain(secret)
                .doesNotContain(world.last().secret.requestKey())
                .doesNotContain(world.last().callbackKey());
        assertThat(Files.readString(entry)).contains(secret);
        Files.setPosixFilePermissions(entry, PosixFilePermissions.fromString("rw-r--r--")); // as it once was
        Files.setPosixFilePermissions(entry.getParent(), PosixFilePermissions.fromString("rwxr-xr-x"));
        pool.close();
        pool = world.supervisor();
        assertThat(mode(entry)).isEqualTo("rw-------");
        assertThat(mode(entry.getParent())).isEqualTo("rwx------");
        assertThat(mode(folder.resolve(WorkerLogs.FOLDER))).isEqualTo("rwx------");
        pool.adopt();
        world.pass(pool, Duration.ofMillis(200));
        assertThat(lease()).as("adopted by its secret").isPresent();
        world.pass(pool, Duration.ofSeconds(1));
        restartAfter(lease().orElseThrow().workerId(), 1);
        assertThat(mode(entry)).isEqualTo("rw-------");
        assertThat(world.last().secret.text()).as("each start has its own").isNotEqualTo(secret);
    }

    private static String mode(Path path) throws IOException {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
    }

    @Test
    void aProgramThatDoesNotKnowTheSecretIsNeverReady() throws IOException {
        String id = pool.start(SPEC, Optional.empty());
        FakeChild worker = world.last();
        FakeChild impostor = (FakeChild) world.start(List.of("other", "--worker-id", id), SOME_SECRET, folder);
        assertThat(pool.isCallbackKey(impostor.callbackKey())).isFalse();
        assertThatThrownBy(() -> pool.calledBack(id, impostor.callbackKey(), impostor.uri))
                .isInstanceOf(PoolException.class);
        assertThat(pool.isCallbackKey(worker.callbackKey())).isTrue();
        pool.calledBack(id, worker.callbackKey(), impostor.uri); // as if the callback's key were stolen
        world.pass(pool, Duration.ofSeconds(29));
        assertThat(state(pool, id)).isEqualTo(WorkerState.STARTING);
        assertThat(lease()).isEmpty();
        world.pass(pool, Duration.ofSeconds(2));
        assertThat(view(pool, id).failure().reason()).contains("no successful health check at " + impostor.uri);
    }

    @Test
    void aRegisteredWorkerGeneratesATokenBeforeItIsUsed() throws IOException {
        FakeChild remote = (FakeChild) world.start(List.of("elsewhere", "--worker-id", "theirs"), SOME_SECRET, folder);
        remote.computes = false; // as with a wrong key
        String id = pool.register(WorkerEndpoint.registered(remote.uri, "key"));
        world.pass(pool, Duration.ofSeconds(2));
        assertThat(state(pool, id)).isEqualTo(WorkerState.FAILED);
        assertThat(view(pool, id).failure().reason()).contains("/health/deep");
        assertThat(pool.isExpected("coder", Set.of())).isFalse();
        remote.computes = true;
        world.until(pool, () -> lease().isPresent());
        remote.answers = false;
        world.until(pool, () -> state(pool, id) == WorkerState.FAILED);
        assertThatThrownBy(() -> pool.rejectUnreachable("coder"))
                .as("clients do not wait for it")
                .isInstanceOfSatisfying(
                        PoolException.class,
                        failure -> assertThat(failure.isRetriable()).isTrue());
    }

    @Test
    void aSlowStartHasATimeout() {
        String id = pool.start(SPEC, Optional.empty());
        world.pass(pool, Duration.ofSeconds(299));
        assertThat(state(pool, id)).isEqualTo(WorkerState.STARTING);
        world.pass(pool, Duration.ofSeconds(2));
        assertThat(world.children.getFirst().kills).isEqualTo(1);
        assertThat(view(pool, id).failure().reason()).contains("not ready within 300 s");
        assertThat(world.events).anyMatch(each -> each.kind() == PoolEvent.PoolEventKind.START_TIMEOUT);
    }

    @Test
    void aRepeatedCallbackIsIgnored() {
        String id = world.ready(pool);
        FakeChild first = world.last();
        pool.calledBack(id, first.callbackKey(), first.uri);
        URI elsewhere = URI.create("http://127.0.0.1:1");
        assertThatThrownBy(() -> pool.calledBack(id, first.callbackKey(), elsewhere))
                .isInstanceOf(PoolException.class);
        assertThat(view(pool, id).uri()).isEqualTo(first.uri.toString());
        restartAfter(id, 1);
        assertThatThrownBy(() -> pool.calledBack(id, first.callbackKey(), first.uri))
                .as("of a process that has exited")
                .isInstanceOf(PoolException.class);
        assertThatThrownBy(() -> pool.calledBack("w-0", "0", first.uri)).hasMessageContaining("no such worker");
    }

    @Test
    void aWorkerThatReportsAnotherIdIsKilled() {
        String id = pool.start(SPEC, Optional.empty());
        world.last().workerId = "w-other";
        world.callBack(pool);
        world.pass(pool, Duration.ofMillis(100));
        assertThat(view(pool, id).failure().reason()).contains("is worker w-other, expected " + id);
    }

    @Test
    void stoppingDrainsThenTerminatesThenKills() {
        String id = world.ready(pool);
        WorkerLease running = lease().orElseThrow();
        world.last().obeys = false;
        pool.stop(id);
        assertThat(lease()).as("a draining worker gets nothing").isEmpty();
        world.pass(pool, Duration.ofSeconds(20));
        assertThat(world.last().terminations).isZero();
        running.close();
        world.pass(pool, Duration.ofMillis(100));
        assertThat(world.last().terminations).isEqualTo(1);
        assertThat(pool.allocated("cpu")).as("it still lives").isEqualTo(1000);
        assertThat(world.until(pool, () -> world.last().kills > 0).toSeconds()).isEqualTo(30);
        world.pass(pool, Duration.ofMinutes(10));
        assertThat(state(pool, id)).isEqualTo(WorkerState.STOPPED);
        assertThat(pool.allocated("cpu")).isZero();
        assertThat(world.children).hasSize(1);
    }

    @Test
    void drainingHasADeadlineAndLeavesTheProcess() {
        String id = world.ready(pool);
        WorkerLease running = lease().orElseThrow();
        List<String> cut = new ArrayList<>();
        running.onLost(() -> cut.add("cut"));
        pool.drain(id);
        world.pass(pool, Duration.ofSeconds(29));
        assertThat(cut).isEmpty();
        world.pass(pool, Duration.ofSeconds(2));
        assertThat(cut).containsExactly("cut");
        assertThat(state(pool, id)).isEqualTo(WorkerState.DRAINING);
        assertThat(world.last().terminations + world.last().kills).isZero();
        pool.stop(id);
        running.close();
        world.pass(pool, Duration.ofMillis(200));
        assertThat(state(pool, id)).isEqualTo(WorkerState.STOPPED);
    }

    @Test
    void withoutSigtermTheWorkerIsStoppedOverHttp() {
        world.canTerminate = false;
        String id = world.ready(pool);
        pool.stop(id);
        world.pass(pool, Duration.ofMillis(200));
        assertThat(world.shutdowns).hasSize(1);
        assertThat(world.last().terminations).isZero();
        assertThat(state(pool, id)).isEqualTo(WorkerState.STOPPED);
    }

    @Test
    void reloadingSwitchesWhenTheNewOneIsReady() {
        String old = world.ready(pool);
        String fresh = pool.start(SPEC, Optional.of(old));
        world.pass(pool, Duration.ofSeconds(5));
        assertThat(lease().orElseThrow().workerId()).isEqualTo(old);
        pool.calledBack(fresh, world.last().callbackKey(), world.last().uri);
        world.pass(pool, Duration.ofSeconds(31));
        assertThat(lease().orElseThrow().workerId()).isEqualTo(fresh);
        world.pass(pool, Duration.ofSeconds(1));
        assertThat(state(pool, old)).isEqualTo(WorkerState.STOPPED);
    }

    @Test
    void theOldWorkerKeepsServingWhenItsReplacementFails() {
        String old = world.ready(pool);
        String fresh = pool.start(SPEC, Optional.of(old));
        world.last().exits(1);
        world.pass(pool, Duration.ofMinutes(10));
        assertThat(state(pool, fresh)).isEqualTo(WorkerState.FAILED);
        assertThat(world.children).as("it is not tried again").hasSize(2);
        assertThat(lease().orElseThrow().workerId()).isEqualTo(old);
    }

    @Test
    void aNewPoolAdoptsRunningWorkers() throws IOException {
        String ready = world.ready(pool);
        FakeChild running = world.last();
        String loading = pool.start(SPEC, Optional.empty());
        pool.close();
        pool = world.supervisor();
        pool.adopt();
        assertThat(pool.allocated("cpu")).isEqualTo(2000);
        world.pass(pool, Duration.ofMillis(200));
        assertThat(state(pool, ready)).isEqualTo(WorkerState.READY);
        assertThat(lease().orElseThrow().endpoint().uri()).isEqualTo(running.uri);
        assertThat(state(pool, loading)).isEqualTo(WorkerState.STARTING);
        pool.calledBack(loading, world.last().callbackKey(), world.last().uri);
        world.pass(pool, Duration.ofMillis(200));
        assertThat(state(pool, loading)).isEqualTo(WorkerState.READY);
        assertThat(world.children).as("nothing was started").hasSize(2);
    }

    @Test
    void aNewPoolKillsUnverifiedWorkersAndSignalsNoOtherProcess() throws IOException {
        String hangs = world.ready(pool);
        FakeChild hanging = world.last();
        hanging.answers = false;
        world.ready(pool);
        FakeChild exited = world.last();
        pool.close();
        exited.exits(1);
        Path entry = folder.resolve("workers").resolve(exited.argument("--worker-id") + ".json");
        // its pid was reused by another process
        Files.writeString(
                entry, Files.readString(entry).replace("\"pid\" : " + exited.pid, "\"pid\" : " + hanging.pid));
        pool = world.supervisor();
        pool.adopt();
        assertThat(hanging.kills + hanging.terminations).isZero();
        world.until(pool, () -> hanging.kills > 0);
        assertThat(view(pool, hangs).restarts()).isZero();
        world.pass(pool, Duration.ofSeconds(3));
        assertThat(world.children).as("both are started again").hasSize(4);
        assertThat(exited.kills + exited.terminations).isZero();
    }

    @Test
    void anAdoptedWorkerIgnoresErrorsOfEarlierStarts() throws IOException {
        String id = world.ready(pool);
        Path log = folder.resolve(WorkerLogs.FOLDER).resolve(id + WorkerLogs.SUFFIX);
        Files.createDirectories(log.getParent());
        Files.writeString(log, "starforge: of an earlier start\n");
        pool.close();
        pool = world.supervisor();
        pool.adopt();
        world.last().exits(1);
        world.pass(pool, Duration.ofMillis(100));
        assertThat(state(pool, id)).isEqualTo(WorkerState.FAILED);
        assertThat(view(pool, id).failure().reason()).startsWith("1").doesNotContain("earlier start");
    }

    @Test
    void aStateFolderIsUsedByOnePool() {
        assertThatThrownBy(() -> world.supervisor())
                .isInstanceOf(IOException.class)
                .hasMessageContaining(
                        "starforge pool, process " + ProcessHandle.current().pid());
    }

    @Test
    void aWorkerThatCannotBeJournaledIsNotStarted() throws IOException {
        Path journal = folder.resolve("workers");
        Files.delete(journal);
        Files.createFile(journal); // as when a disk is full or read-only: nothing can be written there
        assertThatThrownBy(() -> pool.start(SPEC, Optional.empty()))
                .isInstanceOfSatisfying(
                        PoolException.class,
                        failure -> assertThat(failure.code()).isEqualTo(PoolError.WORKER_START_FAILED));
        assertThat(world.children).isEmpty();
        assertThat(pool.views()).isEmpty();
        assertThat(pool.allocated("cpu")).isZero();
    }

    @Test
    void runningWorkersSurviveAFullDiskAndAreNotReadyBeforeTheyAreJournaled() throws IOException {
        String id = pool.start(SPEC, Optional.empty());
        Path journal = folder.resolve("workers");
        Files.move(journal, folder.resolve("aside"));
        Files.createFile(journal);
        assertThatThrownBy(() -> world.callBack(pool))
                .isInstanceOfSatisfying(
                        PoolException.class,
                        failure -> assertThat(failure.isRetriable()).isTrue());
        assertThat(state(pool, id)).isEqualTo(WorkerState.STARTING);
        Files.delete(journal);
        Files.move(folder.resolve("aside"), journal);
        world.callBack(pool);
        assertThat(state(pool, id)).isEqualTo(WorkerState.READY);
    }

    @Test
    void aClockThatJumpsChangesNothing() {
        String id = world.ready(pool);
        world.setClock(Duration.ofDays(400));
        world.pass(pool, Duration.ofSeconds(30));
        world.setClock(Duration.ofDays(-800));
        world.pass(pool, Duration.ofSeconds(30));
        assertThat(state(pool, id)).isEqualTo(WorkerState.READY);
        assertThat(world.last().kills).isZero();
        assertThat(restartAfter(id, 1)).isLessThan(Duration.ofSeconds(2));
    }

    @Test
    void aRegisteredWorkerIsCheckedAndNeverSignalled() throws IOException {
        FakeChild remote = (FakeChild) world.start(List.of("elsewhere", "--worker-id", "theirs"), SOME_SECRET, folder);
        String id = pool.register(WorkerEndpoint.registered(remote.uri, ""));
        world.pass(pool, Duration.ofMillis(200));
        assertThat(lease().orElseThrow().workerId()).isEqualTo(id);
        assertThatThrownBy(() -> pool.stop(id)).hasMessageContaining("is a registered worker");
        remote.answers = false;
        world.until(pool, () -> state(pool, id) == WorkerState.FAILED);
        assertThat(lease()).isEmpty();
        remote.answers = true;
        world.until(pool, () -> lease().isPresent());
        assertThat(remote.kills + remote.terminations).isZero();
        assertThat(world.children).hasSize(1);
    }

    @Test
    void aWorkerIsStartedOnTheDeviceThatItsSpecNames() {
        world.ready(pool);
        assertThat(world.last().command).containsSequence("--device", "cpu").doesNotContain("--device-index");
        pool.start(new WorkerSpec("coder", Path.of("coder.gguf"), "cuda:1", Map.of(), 1000, 100), Optional.empty());
        assertThat(world.last().command).containsSequence("--device", "cuda", "--device-index", "1");
        assertThat(pool.allocated("cuda:1")).isEqualTo(1000);
    }

    @Test
    void anAdapterIsServedByWorkersThatHaveIt() {
        world.ready(pool);
        WorkerSpec adapted =
                new WorkerSpec("coder", Path.of("coder.gguf"), "cpu", Map.of("ours", Path.of("ours")), 1000, 100);
        String id = pool.start(adapted, Optional.empty());
        assertThat(world.last().command).containsSequence("--adapter", "ours=ours");
        assertThat(pool.acquire("ours", Set.of(), List::getFirst))
                .as("not ready yet")
                .isEmpty();
        assertThat(pool.isExpected("ours", Set.of())).isTrue();
        world.callBack(pool);
        assertThat(pool.acquire("ours", Set.of(), List::getFirst).orElseThrow().workerId())
                .isEqualTo(id);
        assertThat(pool.acquire("coder", Set.of(), candidates -> {
                    assertThat(candidates).hasSize(2);
                    return candidates.getLast();
                }))
                .isPresent();
        assertThat(pool.isExpected("theirs", Set.of())).isFalse();
    }

    /** The next check may be ten seconds away; until then it would be in the way of another model. */
    @Test
    void aBusyWorkerIsCheckedAgainWhenItsRequestsEnd() {
        String id = world.ready(pool);
        Set<String> models = Set.of("coder");
        try (WorkerLease _ = lease().orElseThrow()) {
            world.last().running = 1;
            world.pass(pool, Duration.ofSeconds(11));
            assertThat(pool.mayBeIdle("cpu", models)).as("it is used").isFalse();
        }
        assertThat(pool.stopIdlest("cpu", models)).isEmpty();
        world.pass(pool, Duration.ofMillis(300));
        assertThat(pool.mayBeIdle("cpu", models))
                .as("a client sends a request directly")
                .isTrue();
        world.last().running = 0;
        world.pass(pool, Duration.ofMillis(300));
        assertThat(pool.mayBeIdle("cpu", models)).isFalse();
        assertThat(pool.stopIdlest("cpu", models)).contains(id);
    }

    @Test
    void theLeastRecentlyUsedIdleWorkerIsStopped() {
        Map<String, String> ids = new HashMap<>();
        for (String model : List.of("a", "b", "c")) {
            ids.put(model, pool.start(new WorkerSpec(model, Path.of(model), "cpu", Map.of(), 10, 1), Optional.empty()));
            world.callBack(pool);
            world.pass(pool, Duration.ofSeconds(1));
        }
        pool.acquire("a", Set.of(), List::getFirst).orElseThrow().close();
        WorkerLease busy = pool.acquire("b", Set.of(), List::getFirst).orElseThrow();
        Set<String> all = Set.of("a", "b", "c");
        assertThat(pool.stopIdlest("cpu", all)).contains(ids.get("c"));
        world.pass(pool, Duration.ofMillis(200));
        assertThat(pool.stopIdlest("cuda:0", all)).isEmpty();
        assertThat(pool.stopIdlest("cpu", Set.of("b"))).as("it is busy").isEmpty();
        assertThat(pool.stopIdlest("cpu", all)).contains(ids.get("a"));
        busy.close();
        pool.stopUnused(model -> Optional.of(Duration.ofSeconds(30)));
        assertThat(state(pool, ids.get("b"))).isEqualTo(WorkerState.READY);
        world.pass(pool, Duration.ofSeconds(31));
        pool.stopUnused(model -> Optional.of(Duration.ofSeconds(30)));
        world.pass(pool, Duration.ofMillis(200));
        assertThat(state(pool, ids.get("b"))).as("scaled to zero").isEqualTo(WorkerState.STOPPED);
        assertThat(pool.allocated("cpu")).isZero();
    }

    /** Requests can name a model by its alias or by the name of its base, as at the worker itself. */
    @Test
    void aWorkerServesAllNamesThatItReports() throws Exception {
        world.ready(pool);
        world.last().names = List.of("coder", "coder-base", "coder.gguf");
        world.pass(pool, Duration.ofSeconds(11));
        pool.register(WorkerEndpoint.registered(world.last().uri, ""));
        world.pass(pool, Duration.ofSeconds(1));
        for (String name : List.of("coder", "coder-base", "coder.gguf")) {
            List<String> candidates = new ArrayList<>();
            pool.acquire(name, Set.of(), ready -> {
                        ready.forEach(candidate -> candidates.add(candidate.id()));
                        return ready.getFirst();
                    })
                    .orElseThrow()
                    .close();
            assertThat(candidates).as(name).hasSize(2);
        }
        assertThat(pool.models()).containsExactly("coder", "coder-base", "coder.gguf");
    }
}
