package dev.starforge.conformance;

import static dev.starforge.conformance.TinyServer.of;
import static dev.starforge.conformance.TinyServer.request;
import static dev.starforge.conformance.TinyServer.text;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.conformance.TinyServer.Setup;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.generate.StopReason;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.StopConditions;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Concurrent sequences match separate runs and end as requested. */
@ParameterizedClass
@ValueSource(booleans = {false, true})
final class SchedulerTest {
    @Parameter
    private boolean asynchronous;

    private static final int REQUESTS = 32;

    private static int[] prompt(int i) {
        return text(i, 1 + 7 * i % 53);
    }

    private static int length(int i) {
        return 1 + 5 * i % 23;
    }

    /** Windows give blocks back early; longrope's texts change their rotary tables at 32 tokens, and all is computed again. */
    @ParameterizedTest
    @ValueSource(strings = {"llama3", "starcoder2", "qwen3_moe", "phi3-longrope"})
    void concurrentSequencesMatchSeparateRuns(String model) throws Exception {
        Setup setup = Setup.of(model, asynchronous).withNanosPerRow(10_000_000); // pieces of 16 tokens
        try (SingleSequenceRun alone = new SingleSequenceRun(model);
                TinyServer server = new TinyServer(setup)) {
            server.hold();
            List<CollectingSink> all = new ArrayList<>();
            for (int i = 0; i < REQUESTS; i++) {
                all.add(server.submit(request(prompt(i), length(i))));
            }
            server.device.resume();
            for (int i = 0; i < REQUESTS; i++) {
                assertThat(all.get(i).finished()).as("request %d", i).isEqualTo(alone.greedy(prompt(i), length(i)));
            }
            server.idle(setup);
        }
    }

    private static SamplingParams sampling(int i) {
        return new SamplingParams(
                i % 4 == 0 ? 0 : 0.5 + i % 5 * 0.3,
                i % 3 == 0 ? 0 : 20,
                i % 2 == 0 ? 1 : 0.9,
                i % 5 == 0 ? 0.05 : 0,
                i % 7 == 0 ? 0.9 : 1,
                i % 2 == 0 ? 1.3 : 1,
                i % 3 == 1 ? 0.7 : 0,
                i % 4 == 3 ? 0.5 : 0,
                1000 + i);
    }

    @Test
    void sampledTokensAndLogprobsMatchHost() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous);
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            server.hold();
            List<CollectingSink> all = new ArrayList<>();
            for (int i = 0; i < REQUESTS; i++) {
                all.add(server.submit(request(prompt(i), length(i), sampling(i), i % 4 - 1)));
            }
            server.device.resume();
            for (int i = 0; i < REQUESTS; i++) {
                SingleSequenceRun.Generated said = alone.say(prompt(i), length(i), sampling(i));
                CollectingSink heard = all.get(i);
                assertThat(heard.finished()).as("request %d", i).isEqualTo(said.ids());
                CollectingSink again = server.submit(request(prompt(i), length(i), sampling(i), i % 4 - 1));
                again.ending();
                assertThat(again.tokens).as("request %d alone", i).isEqualTo(heard.tokens);
                for (int t = 0; t < heard.tokens.size(); t++) {
                    int wanted = i % 4 - 1;
                    assertThat(heard.tokens.get(t).top()).hasSize(Math.max(0, wanted));
                    assertThat((double) heard.tokens.get(t).logprob())
                            .isCloseTo(wanted < 0 ? 0 : said.logprobs().get(t), within(1e-5));
                }
            }
        }
    }

    @Test
    void prefixIsComputedOncePerTenant() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous);
        int[] prompt = text(1, 100);
        int shared = 100 / Engine.BLOCK_SIZE * Engine.BLOCK_SIZE;
        try (TinyServer server = new TinyServer(setup)) {
            int[] first = server.submit(of(prompt, 1, "", "a")).finished();
            assertThat(server.device.computed()).isEqualTo(100);
            CollectingSink again = server.submit(of(prompt, 1, "", "a"));
            assertThat(again.finished()).isEqualTo(first);
            assertThat(again.ending()).isEqualTo(new FinishReason.Completed(StopReason.MAX_TOKENS, shared));
            assertThat(server.device.computed()).isEqualTo(200 - shared);
            CollectingSink stranger = server.submit(of(prompt, 1, "", "b"));
            assertThat(stranger.finished()).isEqualTo(first);
            assertThat(stranger.ending()).isEqualTo(new FinishReason.Completed(StopReason.MAX_TOKENS, 0));
            assertThat(server.device.computed()).isEqualTo(300 - shared);
            server.idle(setup);
            EngineStatus status = server.scheduler.status();
            assertThat(status.prefixQueries()).isEqualTo(300);
            assertThat(status.prefixHits()).isEqualTo(shared);
        }
    }

    @Test
    void zeroTokensOnlyFillTheCache() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous);
        int[] prompt = text(2, 49);
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            server.hold();
            CollectingSink beside = server.submit(request(text(3, 9), 5));
            CollectingSink filling = server.submit(request(prompt, 0));
            server.device.resume();
            assertThat(filling.ending()).isEqualTo(new FinishReason.Completed(StopReason.MAX_TOKENS, 0));
            assertThat(filling.tokens).isEmpty();
            assertThat(beside.finished()).isEqualTo(alone.greedy(text(3, 9), 5));
            CollectingSink filled = server.submit(request(prompt, 3));
            assertThat(filled.finished()).isEqualTo(alone.greedy(prompt, 3));
            assertThat(filled.ending()).isEqualTo(new FinishReason.Completed(StopReason.MAX_TOKENS, 48));
        }
    }

    @Test
    void sequencesEndAtStopTokensAndWhenSinkStops() throws Exception {
        Setup setup = Setup.of("llama3", asynchronous);
        int[] prompt = text(4, 20);
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            int[] whole = alone.greedy(prompt, 12);
            int stop = whole[6];
            int[] before =
                    Arrays.copyOf(whole, Arrays.stream(whole).boxed().toList().indexOf(stop));
            CollectingSink stopped = server.submit(new GenerationRequest(
                    prompt, 12, SamplingParams.GREEDY, Set.of(stop), GenerationRequest.NO_LOGPROBS, "", ""));
            assertThat(stopped.finished()).isEqualTo(before);
            assertThat(stopped.ending()).isEqualTo(new FinishReason.Completed(StopReason.EOS, 0));
            CollectingSink enough = new CollectingSink(count -> count < 4);
            server.submit(request(prompt, 12), enough);
            assertThat(enough.finished()).isEqualTo(Arrays.copyOf(whole, 4));
            assertThat(enough.ending()).isEqualTo(new FinishReason.Completed(StopReason.STOP_SEQUENCE, 16));
            server.idle(setup);
            assertThat(enough.endings).hasSize(1);
        }
    }

    /** At a high temperature the tiny model soon samples its end-of-text token, which is 1. */
    @Test
    void endOfTextEndsSequenceAndIsNotDelivered() throws Exception {
        SamplingParams plain = SamplingParams.PLAIN.withTemperature(2);
        try (TinyServer server = new TinyServer(Setup.of("llama3", asynchronous))) {
            int ended = 0;
            for (int seed = 0; seed < 20; seed++) {
                CollectingSink heard = server.submit(request(text(seed, 5), 120, plain.withSeed(seed), -1));
                assertThat(heard.finished()).doesNotContain(1);
                if (((FinishReason.Completed) heard.ending()).reason() == StopReason.EOS) {
                    ended++;
                    assertThat(server.submit(withoutEnd(text(seed, 5), plain.withSeed(seed)))
                                    .finished())
                            .as("the same text, which goes on")
                            .startsWith(heard.finished())
                            .contains(1)
                            .hasSize(120);
                }
            }
            assertThat(ended).isPositive();
        }
    }

    private static GenerationRequest withoutEnd(int[] prompt, SamplingParams sampling) {
        return new GenerationRequest(
                HealedPrompt.asIs(prompt),
                sampling,
                new StopConditions(120, Set.of(), true),
                GenerationRequest.NO_LOGPROBS,
                "",
                "");
    }

    /** A step uses one of two rotary tables; sequences of both make progress. */
    @Test
    void sequencesWithDifferentRopeScalingAlternate() throws Exception {
        try (TinyServer server = new TinyServer(Setup.of("phi3-longrope", asynchronous))) {
            server.hold();
            CollectingSink near = server.submit(request(text(1, 4), 24));
            CollectingSink[] tokensOfNear = {near};
            List<Integer> heardOfNear = new ArrayList<>();
            CollectingSink far = new CollectingSink(count -> heardOfNear.add(tokensOfNear[0].tokens.size()));
            server.submit(request(text(2, 60), 8), far);
            server.device.resume();
            near.finished();
            far.finished();
            assertThat(heardOfNear).hasSize(8);
            for (int i = 0; i < 8; i++) {
                assertThat(heardOfNear.get(i)).isLessThanOrEqualTo(i + 2);
            }
        }
    }
}
