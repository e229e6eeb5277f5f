package dev.starforge.conformance;

import static dev.starforge.conformance.TinyServer.refused;
import static dev.starforge.conformance.TinyServer.request;
import static dev.starforge.conformance.TinyServer.text;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.conformance.TinyServer.Setup;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.serve.engine.TokenSink;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Out of memory, queue limits and failures. */
@ParameterizedClass
@ValueSource(booleans = {false, true})
final class SchedulerLimitsTest {
    @Parameter
    private boolean asynchronous;

    private static void failed(CollectingSink heard, FinishReason.FailureKind kind) throws Exception {
        assertThat(heard.ending())
                .isInstanceOfSatisfying(
                        FinishReason.EngineFailed.class,
                        failed -> assertThat(failed.kind()).isEqualTo(kind));
        assertThat(heard.endings).hasSize(1);
    }

    /** Eight sequences of 48 to 60 tokens in a cache of 160. */
    @Test
    void preemptedSequencesMatchUninterruptedOnes() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous).withBlocks(10).withSequences(8);
        SamplingParams drawn = SamplingParams.PLAIN.withRepetitionPenalty(1.2).withFrequencyPenalty(0.4);
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            server.hold();
            List<CollectingSink> all = new ArrayList<>();
            List<CollectingSink> endedBefore = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                int number = i;
                all.add(new CollectingSink(count -> {
                    if (number == 0 && count == 40) {
                        all.stream().filter(each -> !each.endings.isEmpty()).forEach(endedBefore::add);
                    }
                    return true;
                }));
                server.submit(
                        request(text(i, 8 + i), 40 + i % 5, i % 2 == 0 ? SamplingParams.GREEDY : drawn, 0), all.get(i));
            }
            server.device.resume();
            for (int i = 0; i < 8; i++) {
                SingleSequenceRun.Generated said =
                        alone.say(text(i, 8 + i), 40 + i % 5, i % 2 == 0 ? SamplingParams.GREEDY : drawn);
                assertThat(all.get(i).finished()).as("request %d", i).isEqualTo(said.ids());
            }
            server.idle(setup);
            assertThat(server.scheduler.status().preemptions()).isPositive();
            assertThat(endedBefore).as("the oldest is never preempted").isEmpty();
        }
    }

    /**
     * Few blocks, few slots, shared prefixes, sampled and greedy sequences from several threads, of which some are cancelled or stopped
     * by their sinks: the tokens of each are those of a separate run, or a prefix of them.
     */
    @ParameterizedTest
    @ValueSource(strings = {"llama3", "starcoder2", "phi3-longrope"})
    void randomLoadDoesNotChangeTokens(String model) throws Exception {
        Setup setup =
                Setup.of(model, asynchronous).withBlocks(8).withSequences(6).withNanosPerRow(10_000_000);
        try (SingleSequenceRun alone = new SingleSequenceRun(model);
                TinyServer server = new TinyServer(setup)) {
            Crowd[] crowds = new Crowd[4];
            Thread[] threads = new Thread[crowds.length];
            for (int i = 0; i < crowds.length; i++) {
                Crowd crowd = new Crowd(server, new Random(i), new ArrayList<>(), new ArrayList<>());
                crowds[i] = crowd;
                threads[i] = Thread.ofPlatform().start(crowd);
            }
            for (Thread thread : threads) {
                thread.join();
            }
            for (Crowd crowd : crowds) {
                for (int i = 0; i < crowd.requests.size(); i++) {
                    GenerationRequest request = crowd.requests.get(i);
                    CollectingSink heard = crowd.heard.get(i);
                    int[] said = alone.say(request.prompt(), request.maxTokens(), request.sampling())
                            .ids();
                    int expected = heard.ending() instanceof FinishReason.Completed
                            ? Math.min(said.length, ENOUGH)
                            : heard.tokens.size();
                    assertThat(heard.ids()).isEqualTo(Arrays.copyOf(said, expected));
                    assertThat(heard.ending())
                            .isInstanceOfAny(FinishReason.Completed.class, FinishReason.Cancelled.class);
                }
            }
            server.idle(setup);
        }
    }

    /** Tokens after which some sinks stop; some sequences are shorter. */
    private static final int ENOUGH = 30;

    /** A client that sends ten requests in sequence in each of four rounds, and cancels some of them. */
    private record Crowd(TinyServer server, Random random, List<GenerationRequest> requests, List<CollectingSink> heard)
            implements Runnable {
        @Override
        public void run() {
            for (int round = 0; round < 4; round++) {
                List<SequenceHandle> jobs = new ArrayList<>();
                for (int i = 0; i < 10; i++) {
                    int[] prompt = text(random.nextInt(4), 1 + random.nextInt(70));
                    SamplingParams sampling = random.nextBoolean()
                            ? SamplingParams.GREEDY
                            : SamplingParams.PLAIN
                                    .withPresencePenalty(random.nextInt(2))
                                    .withSeed(random.nextInt());
                    requests.add(request(prompt, random.nextInt(50), sampling, 0));
                    heard.add(new CollectingSink(count -> count < ENOUGH));
                    jobs.add(server.submit(requests.getLast(), heard.getLast()));
                }
                for (SequenceHandle job : jobs) {
                    if (random.nextInt(3) == 0) {
                        job.cancel();
                    }
                }
                heard.forEach(CollectingSink::ending);
            }
        }
    }

    @Test
    void rejectsOnlyRequestsThatNeverFit() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous).withBlocks(4);
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            refused(EngineException.EngineErrorKind.NEVER_FITS, () -> server.submit(request(text(1, 40), 25)));
            refused(
                    EngineException.EngineErrorKind.NEVER_FITS,
                    () -> server.submit(request(text(1, 40), Integer.MAX_VALUE)));
            refused(
                    EngineException.EngineErrorKind.NEVER_FITS,
                    () -> server.scheduler.embed(List.of(text(1, 65)), "").join());
            assertThat(server.submit(request(text(1, 40), 24)).finished()).isEqualTo(alone.greedy(text(1, 40), 24));
        }
        try (TinyServer server =
                new TinyServer(Setup.of("llama3", asynchronous))) { // has room for more than the context of 256
            refused(EngineException.EngineErrorKind.NEVER_FITS, () -> server.submit(request(text(1, 200), 57)));
        }
    }

    @Test
    void fullQueueRejectsUntilARequestEnds() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous).withPlaces(3);
        try (TinyServer server = new TinyServer(setup)) {
            server.hold(); // has one place
            CollectingSink one = server.submit(request(text(1, 4), 3));
            CollectingSink two = server.submit(request(text(2, 4), 3));
            refused(EngineException.EngineErrorKind.QUEUE_FULL, () -> server.submit(request(text(3, 4), 3)));
            refused(
                    EngineException.EngineErrorKind.QUEUE_FULL,
                    () -> server.scheduler.embed(List.of(text(3, 4)), "").join());
            server.device.resume();
            one.finished();
            two.finished();
            for (int i = 0; i < 5; i++) {
                assertThat(server.submit(request(text(4, 4), 3)).finished()).hasSize(3);
            }
        }
    }

    /** Simulates a leak of blocks: only the sequence that needs them ends. */
    @Test
    void sequenceWithoutBlocksEndsAlone() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous).withBlocks(6).withFirst(engine -> {
            Engine.Sequence held = engine.open(text(50, 40));
            engine.step(List.of(new Engine.SequenceChunk(held, 40, 1)));
        });
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            CollectingSink large = server.submit(request(text(1, 30), 40));
            failed(large, FinishReason.FailureKind.OUT_OF_MEMORY);
            assertThat(large.tokens).hasSize(19);
            assertThat(server.submit(request(text(2, 30), 10)).finished()).isEqualTo(alone.greedy(text(2, 30), 10));
            server.status(status -> status.running() == 0 && status.kvUsage() == 0.5);
        }
    }

    @Test
    void failedStepStopsEngineAndEndsAllSequences() throws Exception {
        dies(new DeviceException("a device that is lost"), FinishReason.FailureKind.INFERENCE_FAILED);
        dies(new MemoryException("no memory is left"), FinishReason.FailureKind.OUT_OF_MEMORY);
    }

    private void dies(RuntimeException failure, FinishReason.FailureKind kind) throws Exception {
        try (TinyServer server = new TinyServer(Setup.of("llama3", asynchronous).withSequences(2))) {
            server.hold();
            List<CollectingSink> all = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                all.add(server.submit(request(text(i, 4), 50)));
            }
            server.device.allow(4);
            all.add(server.submit(request(text(9, 4), 50)));
            server.device.failWith(failure);
            server.device.resume();
            for (CollectingSink heard : all) {
                failed(heard, kind);
            }
            assertThat(server.scheduler.status().alive()).isFalse();
            SchedulerCancelTest.refusesAll(server);
        }
    }

    @Test
    void rejectsTokensOutsideVocabulary() throws Exception {
        try (TinyServer server = new TinyServer(Setup.of("llama3", asynchronous))) {
            assertThatThrownBy(() -> server.submit(request(new int[] {1, TinyServer.VOCABULARY}, 5)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("640");
            assertThat(server.submit(request(text(1, 4), 3)).finished()).hasSize(3);
        }
    }

    /** A sink that throws ends only its own sequence. */
    @Test
    void throwingSinkEndsOnlyItsSequence() throws Exception {
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(Setup.of("llama3", asynchronous))) {
            server.hold();
            CollectingSink before = server.submit(request(text(1, 4), 9));
            CollectingSink broken = new CollectingSink(count -> {
                throw new IllegalStateException("a sink that throws");
            });
            server.submit(request(text(2, 4), 9), broken);
            server.scheduler.submit(request(text(3, 4), 2), new TokenSink() {
                @Override
                public boolean token(GeneratedToken token) {
                    return true;
                }

                @Override
                public void end(FinishReason ending) {
                    throw new IllegalStateException("a sink that throws at its end");
                }
            });
            CollectingSink after = server.submit(request(text(4, 4), 9));
            server.device.resume();
            failed(broken, FinishReason.FailureKind.INFERENCE_FAILED);
            assertThat(broken.tokens).hasSize(1);
            assertThat(before.finished()).isEqualTo(alone.greedy(text(1, 4), 9));
            assertThat(after.finished()).isEqualTo(alone.greedy(text(4, 4), 9));
            server.idle(Setup.of("llama3", asynchronous));
        }
    }
}
