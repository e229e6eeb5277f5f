package dev.starforge.model.gguf;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The types that llama-quantize gives to the tensors of a model with 32 layers. */
final class GgufFileTypeTest {
    private static final Shape MATRIX = Shape.of(4096, 4096);

    private static GgufFileType.QuantizationMix mix(GgufFileType type, int queriesPerKey, int experts) {
        return new GgufFileType.QuantizationMix(type, 32, queriesPerKey, experts, false, false);
    }

    @ParameterizedTest
    @CsvSource({
        // type, V of layer 0, V of layer 10, down of layer 0, down of layer 10, attention output, Q
        "Q2_K, Q3_K, Q3_K, Q3_K, Q3_K, Q3_K, Q2_K",
        "Q3_K_S, Q3_K, Q3_K, Q3_K, Q3_K, Q3_K, Q3_K",
        "Q3_K_M, Q5_K, Q4_K, Q5_K, Q4_K, Q4_K, Q3_K",
        "Q3_K_L, Q5_K, Q5_K, Q5_K, Q5_K, Q5_K, Q3_K",
        "Q4_0, Q4_0, Q4_0, Q4_0, Q4_0, Q4_0, Q4_0",
        "Q4_K_S, Q5_K, Q4_K, Q5_K, Q4_K, Q4_K, Q4_K",
        "Q4_K_M, Q6_K, Q4_K, Q6_K, Q4_K, Q4_K, Q4_K",
        "Q5_K_S, Q5_K, Q5_K, Q5_K, Q5_K, Q5_K, Q5_K",
        "Q5_K_M, Q6_K, Q5_K, Q6_K, Q5_K, Q5_K, Q5_K",
        "Q6_K, Q6_K, Q6_K, Q6_K, Q6_K, Q6_K, Q6_K",
        "Q8_0, Q8_0, Q8_0, Q8_0, Q8_0, Q8_0, Q8_0",
    })
    void sensitiveTensorsHaveMoreBits(
            GgufFileType type,
            BlockFormat values0,
            BlockFormat values11,
            BlockFormat down0,
            BlockFormat down11,
            BlockFormat output,
            BlockFormat queries) {
        GgufFileType.QuantizationMix mix = mix(type, 1, 0);
        assertThat(mix.wanted("blk.0.attn_v.weight", MATRIX)).isEqualTo(values0);
        assertThat(mix.wanted("blk.11.attn_v.weight", MATRIX)).isEqualTo(values11);
        assertThat(mix.wanted("blk.0.ffn_down.weight", MATRIX)).isEqualTo(down0);
        assertThat(mix.wanted("blk.11.ffn_down.weight", MATRIX)).isEqualTo(down11);
        assertThat(mix.wanted("blk.9.attn_output.weight", MATRIX)).isEqualTo(output);
        assertThat(mix.wanted("blk.9.attn_q.weight", MATRIX)).isEqualTo(queries);
        assertThat(mix.wanted("output.weight", MATRIX))
                .isEqualTo(type == GgufFileType.Q8_0 ? BlockFormat.Q8_0 : BlockFormat.Q6_K);
        assertThat(mix.wanted("token_embd.weight", MATRIX)).isEqualTo(type.format());
    }

    @Test
    void sharedKeysAndExpertsChangeTheMix() {
        assertThat(mix(GgufFileType.Q2_K, 4, 0).wanted("blk.9.attn_v.weight", MATRIX))
                .isEqualTo(BlockFormat.Q4_K);
        GgufFileType.QuantizationMix eight = mix(GgufFileType.Q3_K_M, 4, 8);
        assertThat(eight.wanted("blk.9.attn_v.weight", MATRIX)).isEqualTo(BlockFormat.Q8_0);
        assertThat(eight.wanted("blk.9.attn_k.weight", MATRIX)).isEqualTo(BlockFormat.Q8_0);
        assertThat(eight.wanted("blk.9.attn_output.weight", MATRIX)).isEqualTo(BlockFormat.Q5_K);
    }

    @Test
    void theFirstDownProjectionsHaveAnOffsetWithImportance() {
        GgufFileType.QuantizationMix mix = new GgufFileType.QuantizationMix(GgufFileType.Q4_0, 32, 1, 0, false, true);
        assertThat(mix.wanted("blk.3.ffn_down.weight", MATRIX)).isEqualTo(BlockFormat.Q4_1);
        assertThat(mix.wanted("blk.4.ffn_down.weight", MATRIX)).isEqualTo(BlockFormat.Q4_0);
    }

    @Test
    void namesAreThoseOfLlamaQuantize() {
        assertThat(GgufFileType.named("q4_k")).contains(GgufFileType.Q4_K_M);
        assertThat(GgufFileType.named("Q3_K_L")).contains(GgufFileType.Q3_K_L);
        assertThat(GgufFileType.named("q7_0")).isEmpty();
    }
}
