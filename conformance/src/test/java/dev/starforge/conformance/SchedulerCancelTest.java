package dev.starforge.conformance;

import static dev.starforge.conformance.TinyServer.await;
import static dev.starforge.conformance.TinyServer.refused;
import static dev.starforge.conformance.TinyServer.request;
import static dev.starforge.conformance.TinyServer.text;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.conformance.TinyServer.Setup;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.SequenceHandle;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A cancelled sequence leaves after the running step, and requests that need no step do not wait for it. */
@ParameterizedClass
@ValueSource(booleans = {false, true})
final class SchedulerCancelTest {
    @Parameter
    private boolean asynchronous;

    private Setup setup() {
        return Setup.of("llama3", asynchronous).withNanosPerRow(10_000_000); // pieces of 16 tokens
    }

    private void cancelled(TinyServer server, CollectingSink heard, int tokens) throws Exception {
        assertThat(heard.ending()).isEqualTo(new FinishReason.Cancelled());
        server.idle(setup());
        assertThat(heard.endings).hasSize(1);
        assertThat(heard.tokens).hasSize(tokens);
    }

    private static void answersRight(TinyServer server) throws Exception {
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3")) {
            assertThat(server.submit(request(text(5, 90), 4)).finished()).isEqualTo(alone.greedy(text(5, 90), 4));
        }
    }

    @Test
    void cancelsQueuedSequence() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            server.hold();
            CollectingSink heard = new CollectingSink();
            SequenceHandle job = server.submit(request(text(5, 90), 9), heard);
            job.cancel();
            job.cancel();
            server.device.resume();
            cancelled(server, heard, 0);
            assertThat(server.device.computed()).isEqualTo(1);
            answersRight(server);
        }
    }

    @Test
    void cancelsBetweenPrefillChunks() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            answersRight(server); // the size of a piece is known now
            server.device.steps.clear();
            server.device.pause();
            CollectingSink heard = new CollectingSink();
            SequenceHandle job = server.submit(request(text(6, 90), 9), heard);
            await("the first piece", server.device::isHeld);
            server.device.allow(2);
            job.cancel();
            server.device.resume();
            cancelled(server, heard, 0);
            assertThat(server.device.computed()).isBetween(3, 89);
            answersRight(server);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7})
    void cancelsDuringDecode(int count) throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            server.device.pause();
            CollectingSink heard = new CollectingSink();
            SequenceHandle job = server.submit(request(text(7, 10), 40), heard);
            CollectingSink beside = server.submit(request(text(8, 3), 12));
            await("a held step", server.device::isHeld);
            while (heard.tokens.size() < count) {
                server.device.allow(1);
            }
            job.cancel();
            server.device.resume();
            assertThat(beside.finished()).hasSize(12);
            cancelled(server, heard, count);
            job.cancel();
            answersRight(server);
        }
    }

    @Test
    void statusIsAvailableDuringStepAndEmbeddingCanBeCancelled() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            server.hold();
            long begin = System.nanoTime();
            assertThat(server.scheduler.status().alive()).isTrue();
            assertThat(server.scheduler.adapters()).isEmpty();
            var embedding = server.scheduler.embed(List.of(text(1, 30)), "");
            assertThat(embedding.cancel(true)).isTrue();
            assertThat(System.nanoTime() - begin).isLessThan(1_000_000_000L);
            server.device.resume();
            float[] mean =
                    server.scheduler.embed(List.of(text(1, 30)), "").get().getFirst();
            double squares = 0;
            for (float each : mean) {
                squares += each * each;
            }
            assertThat(squares).isCloseTo(1, within(1e-5));
            assertThat(server.device.computed()).isEqualTo(1 + 30);
        }
    }

    @Test
    void closeEndsAllSequences() throws Exception {
        CollectingSink running = new CollectingSink();
        CollectingSink waiting = new CollectingSink();
        CollectingSink queued = new CollectingSink();
        try (TinyServer server = new TinyServer(setup().withSequences(1))) {
            server.submit(request(text(1, 5), 200), running);
            await("a token", () -> !running.tokens.isEmpty());
            server.submit(request(text(2, 5), 5), waiting);
            server.status(status -> status.waiting() == 1);
            server.device.pause();
            await("a held step", server.device::isHeld);
            server.submit(request(text(3, 5), 5), queued);
            Thread closing = Thread.ofPlatform().start(server.scheduler::close);
            await("the end of the step", () -> closing.getState() == Thread.State.WAITING);
            server.device.resume();
            closing.join(20_000);
            assertThat(closing.isAlive()).isFalse();
            for (CollectingSink heard : List.of(running, waiting, queued)) {
                assertThat(heard.endings).hasSize(1);
                assertThat(heard.ending()).isInstanceOf(FinishReason.EngineFailed.class);
            }
            assertThat(server.scheduler.status().alive()).isFalse();
            assertThat(server.scheduler.status().kvUsage()).isZero();
            refusesAll(server);
        }
        assertThat(Thread.getAllStackTraces().keySet().stream().map(Thread::getName))
                .doesNotContain("engine");
    }

    /** After the engine thread has ended, calls that need it throw instead of waiting. */
    static void refusesAll(TinyServer server) {
        refused(EngineException.EngineErrorKind.DEAD, () -> server.submit(request(text(1, 5), 5)));
        refused(
                EngineException.EngineErrorKind.DEAD,
                () -> server.scheduler.embed(List.of(text(1, 5)), "").join());
        refused(EngineException.EngineErrorKind.DEAD, () -> server.scheduler.loadAdapter("a", TinyModel.GOLDEN));
        refused(EngineException.EngineErrorKind.DEAD, () -> server.scheduler.unloadAdapter("a"));
    }

    /** Chunked prefill: running sequences get a token in every step of a long prompt. */
    @Test
    void longPromptDelaysOthersByAtMostOneChunk() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            answersRight(server);
            server.device.pause();
            CollectingSink running = server.submit(request(text(9, 3), 100));
            await("a held step", server.device::isHeld);
            server.device.allow(3);
            server.device.steps.clear();
            int[] before = {-1};
            CollectingSink joining = new CollectingSink(count -> {
                before[0] = before[0] < 0 ? running.tokens.size() : before[0];
                return true;
            });
            server.submit(request(text(10, 200), 2), joining);
            int had = running.tokens.size();
            server.device.resume();
            joining.finished();
            running.finished();
            int pieces =
                    (int) server.device.steps.stream().filter(rows -> rows > 2).count();
            assertThat(pieces).isGreaterThanOrEqualTo(200 / 32);
            assertThat(before[0] - had).isGreaterThanOrEqualTo(pieces);
            assertThat(server.device.steps).allMatch(rows -> rows <= 32);
        }
    }
}
