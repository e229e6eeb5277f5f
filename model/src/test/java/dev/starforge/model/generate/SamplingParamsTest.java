package dev.starforge.model.generate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starforge.model.generate.GenerationException.Violation;
import java.util.Map;
import java.util.function.DoubleFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class SamplingParamsTest {
    private static final Map<String, DoubleFunction<SamplingParams>> SETTINGS = Map.of(
            "temperature", SamplingParams.PLAIN::withTemperature,
            "top_k", value -> SamplingParams.PLAIN.withTopK((int) value),
            "top_p", SamplingParams.PLAIN::withTopP,
            "min_p", SamplingParams.PLAIN::withMinP,
            "typical_p", SamplingParams.PLAIN::withTypicalP,
            "repetition_penalty", SamplingParams.PLAIN::withRepetitionPenalty,
            "presence_penalty", SamplingParams.PLAIN::withPresencePenalty,
            "frequency_penalty", SamplingParams.PLAIN::withFrequencyPenalty);

    @ParameterizedTest
    @CsvSource({
        "temperature, -0.001, 0 to 2",
        "temperature, 2.001, 0 to 2",
        "temperature, NaN, 0 to 2",
        "top_k, -1, 0 or more",
        "top_p, 0, above 0 and at most 1",
        "top_p, 1.001, above 0 and at most 1",
        "top_p, NaN, above 0 and at most 1",
        "min_p, -0.001, at least 0 and below 1",
        "min_p, 1, at least 0 and below 1",
        "typical_p, 0, above 0 and at most 1",
        "typical_p, 1.001, above 0 and at most 1",
        "repetition_penalty, 0, 0.01 to 100.0",
        "repetition_penalty, 1e-39, 0.01 to 100.0",
        "repetition_penalty, 1e30, 0.01 to 100.0",
        "repetition_penalty, Infinity, 0.01 to 100.0",
        "repetition_penalty, NaN, 0.01 to 100.0",
        "presence_penalty, -2.001, -2 to 2",
        "presence_penalty, 2.001, -2 to 2",
        "frequency_penalty, -2.001, -2 to 2",
        "frequency_penalty, NaN, -2 to 2",
    })
    void outsideItsRangeIsRefused(String field, double value, String constraint) {
        assertThatThrownBy(() -> SETTINGS.get(field).apply(value))
                .isInstanceOf(GenerationException.class)
                .hasMessageStartingWith(field + ": expected " + constraint + ", got ");
    }

    @ParameterizedTest
    @CsvSource({
        "temperature, 0",
        "temperature, 2",
        "top_k, 0",
        "top_p, 1",
        "top_p, 1e-9",
        "min_p, 0",
        "min_p, 0.999",
        "typical_p, 1",
        "repetition_penalty, 0.01",
        "presence_penalty, -2",
        "presence_penalty, 2",
        "frequency_penalty, -2",
        "frequency_penalty, 2",
    })
    void theEndsOfARangeBelongToIt(String field, double value) {
        assertThat(SETTINGS.get(field).apply(value).toString()).contains("=" + (field.equals("top_k") ? "0" : value));
    }

    @Test
    void allInvalidParametersAreNamed() {
        GenerationException failure =
                catchThrowableOfType(GenerationException.class, () -> new SamplingParams(3, -1, 2, 1, 2, 0, 3, 3, 0));
        assertThat(failure.violations())
                .extracting(Violation::field)
                .containsExactly(
                        "temperature",
                        "top_k",
                        "top_p",
                        "min_p",
                        "typical_p",
                        "repetition_penalty",
                        "presence_penalty",
                        "frequency_penalty");
        assertThat(failure).hasMessageContaining("; top_k: expected 0 or more, got -1; ");
    }

    @Test
    void onlyPlainGreedyIsArgmax() {
        assertThat(SamplingParams.GREEDY.withTopK(5).withSeed(3).isGreedy()).isTrue();
        assertThat(SamplingParams.PLAIN.isGreedy()).isFalse();
        assertThat(SamplingParams.GREEDY.withRepetitionPenalty(1.1).isGreedy()).isFalse();
        assertThat(SamplingParams.GREEDY.withPresencePenalty(0.1).isGreedy()).isFalse();
        assertThat(SamplingParams.GREEDY.withFrequencyPenalty(0.1).isGreedy()).isFalse();
    }
}
