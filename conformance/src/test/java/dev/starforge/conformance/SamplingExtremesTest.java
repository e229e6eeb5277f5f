package dev.starforge.conformance;

import static dev.starforge.conformance.TinyServer.request;
import static dev.starforge.conformance.TinyServer.text;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.TinyServer.Setup;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.engine.GenerationRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.function.DoubleFunction;
import org.junit.jupiter.api.Test;

/** Every value that {@link SamplingParams} accepts gives tokens, down to those that are 0 in float32. */
final class SamplingExtremesTest {
    private static final SamplingParams PLAIN = SamplingParams.PLAIN.withSeed(3);

    @Test
    void theSmallestAndLargestValuesGiveTokens() throws Exception {
        List<SamplingParams> all = new ArrayList<>();
        for (double tiny : new double[] {Double.MIN_VALUE, 1e-300, 1e-45, 1e-39, 1e-9, -0.0}) {
            List<DoubleFunction<SamplingParams>> setters = new ArrayList<>(List.of(
                    PLAIN::withTemperature, PLAIN::withMinP, PLAIN::withPresencePenalty, PLAIN::withFrequencyPenalty));
            if (tiny > 0) {
                setters.addAll(List.of(PLAIN::withTopP, PLAIN::withTypicalP));
            }
            setters.forEach(set -> all.add(set.apply(tiny)));
        }
        for (double penalty : new double[] {0.01, 100}) {
            all.add(PLAIN.withRepetitionPenalty(penalty));
            all.add(PLAIN.withRepetitionPenalty(penalty).withTemperature(Double.MIN_VALUE));
            all.add(SamplingParams.GREEDY.withRepetitionPenalty(penalty).withPresencePenalty(-2));
        }
        all.add(PLAIN.withTopP(Math.nextDown(1.0)).withMinP(Math.nextDown(1.0)).withTypicalP(Math.nextDown(1.0)));
        all.add(PLAIN.withTopK(Integer.MAX_VALUE).withSeed(Long.MIN_VALUE));
        try (TinyServer server = new TinyServer(Setup.of("llama3", false))) {
            List<CollectingSink> sinks = new ArrayList<>();
            for (SamplingParams sampling : all) {
                sinks.add(server.submit(request(text(1, 20), 6, sampling, GenerationRequest.NO_LOGPROBS)));
            }
            for (int i = 0; i < sinks.size(); i++) {
                assertThat(sinks.get(i).finished()).as(all.get(i).toString()).isNotEmpty();
            }
        }
    }
}
