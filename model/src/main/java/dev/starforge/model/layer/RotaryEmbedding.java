package dev.starforge.model.layer;

import dev.starforge.model.JsonConfig;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Ops;
import java.util.HashMap;
import java.util.Map;

/**
 * Rotary position embeddings with the scaling of a config. The frequencies come from {@code rope_parameters} or from
 * the older {@code rope_theta} and {@code rope_scaling}. Some scalings depend on the sequence length: a range of
 * lengths with the same frequencies is a regime, and cached keys of one regime are invalid in another.
 */
public final class RotaryEmbedding {
    private final RopeScaling scaling;
    private final WeightLoader weights;
    private final Map<Integer, Tensor> tables = new HashMap<>();

    private RotaryEmbedding(RopeScaling scaling, WeightLoader weights) {
        this.scaling = scaling;
        this.weights = weights;
        table(0);
    }

    /** Creates the embedding for heads whose first {@code dims} dimensions are rotary. */
    public static RotaryEmbedding load(JsonConfig config, int dims, WeightLoader weights) {
        return new RotaryEmbedding(RopeScaling.of(config, dims), weights);
    }

    /**
     * Returns the maximum sequence length: {@code max_position_embeddings}, or the length that yarn or linear scaling
     * extends it to.
     */
    public static int contextLength(JsonConfig config) {
        int made = config.size("max_position_embeddings");
        String section = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
        if (!config.has(section)) {
            return made;
        }
        JsonConfig rope = config.section(section);
        String type = rope.string("rope_type", rope.string("type", "default"));
        if (!type.equals("yarn") && !type.equals("linear")) {
            return made;
        }
        double stretched = rope.number("factor") * rope.size("original_max_position_embeddings", made);
        return (int) Math.max(made, Math.min(stretched, Integer.MAX_VALUE));
    }

    /**
     * Returns the section with the rope settings: {@code rope_parameters}, the older {@code rope_scaling}, or the
     * config itself.
     */
    public static JsonConfig section(JsonConfig config) {
        return config.has("rope_parameters")
                ? config.section("rope_parameters")
                : config.has("rope_scaling") ? config.section("rope_scaling") : config;
    }

    /** Returns rope_theta, the base of the frequencies. */
    public static double theta(JsonConfig config) {
        double older = config.number("rope_theta", config.number("rotary_emb_base", 10000));
        return config.has("rope_parameters") ? section(config).number("rope_theta", older) : older;
    }

    /** Returns the divisors of the unscaled frequencies in the first regime. */
    public static float[] frequencyDivisors(JsonConfig config, int dims) {
        float[] plain = RopeScaling.plain(theta(config), dims);
        float[] scaled = RopeScaling.of(config, dims).frequencies(0);
        for (int i = 0; i < plain.length; i++) {
            plain[i] /= scaled[i];
        }
        return plain;
    }

    /** Returns the factor that rotated vectors are multiplied with. */
    public static float attentionFactor(JsonConfig config, int dims) {
        return RopeScaling.of(config, dims).attentionFactor();
    }

    /** Returns the fraction of a head's dimensions that is rotary. */
    public static double partialRotaryFactor(JsonConfig config) {
        JsonConfig rope = config.has("rope_parameters") ? config.section("rope_parameters") : config;
        return rope.number("partial_rotary_factor", config.number("partial_rotary_factor", 1));
    }

    /** Returns YaRN's factor of the attention scores besides 1 / sqrt(D), 1 if it has none (DeepSeek-AI 2024). */
    public static double yarnScoreScale(JsonConfig config) {
        String section = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
        if (!config.has(section) || config.section(section).isUnset("mscale_all_dim")) {
            return 1;
        }
        JsonConfig rope = config.section(section);
        double sharpness = Yarn.mscale(rope.number("factor"), rope.number("mscale_all_dim"));
        return sharpness * sharpness;
    }

    /** Returns the regime of a sequence length and loads its table to the device. */
    public int regime(int length) {
        int regime = scaling.regime(length);
        table(regime);
        return regime;
    }

    /** Rotates x[N, H, D] by the positions of the batch. */
    public Tensor rotate(Ops ops, Tensor x, Batch batch) {
        return ops.rope(x, batch.positions(), table(batch.regime()), scaling.attentionFactor());
    }

    /** Returns the table of a regime, created on first use. */
    private Tensor table(int regime) {
        return tables.computeIfAbsent(
                regime,
                r -> r == 0 ? weights.rotary(scaling.frequencies(r)) : weights.constant(scaling.frequencies(r)));
    }

    /** Frequencies by regime. They are computed in float32 where HF does, so that long positions match. */
    interface RopeScaling {
        int MAX_DIMS = 1 << 16;

        float[] frequencies(int regime);

        default int regime(int length) {
            return 0;
        }

        default float attentionFactor() {
            return 1;
        }

        static RopeScaling of(JsonConfig config, int dims) {
            if (dims < 2 || dims % 2 != 0 || dims > MAX_DIMS) {
                throw config.invalid(
                        "head_dim",
                        "heads with an even number of 2 to " + MAX_DIMS + " rotary dimensions, not " + dims);
            }
            boolean scaled = config.has("rope_parameters") || config.has("rope_scaling");
            return of(config, section(config), scaled, theta(config), dims);
        }

        private static RopeScaling of(JsonConfig config, JsonConfig rope, boolean scaled, double theta, int dims) {
            String type = scaled ? rope.string("rope_type", rope.string("type", "default")) : "default";
            return switch (type) {
                case "default" -> regime -> plain(theta, dims);
                case "linear" -> linear(theta, dims, rope.number("factor"));
                case "dynamic" ->
                    new DynamicNtk(theta, dims, rope.number("factor"), config.size("max_position_embeddings"));
                case "llama3" -> llama3(rope, plain(theta, dims));
                case "yarn" -> Yarn.of(config, rope, theta, dims);
                case "longrope", "su" -> LongRope.of(config, rope, theta, dims);
                default -> throw rope.invalid("rope_type", "default, linear, dynamic, llama3, yarn or longrope");
            };
        }

        private static float[] plain(double theta, int dims) {
            float[] frequencies = new float[dims / 2];
            for (int i = 0; i < frequencies.length; i++) {
                frequencies[i] = 1f / (float) StrictMath.pow(theta, 2f * i / dims);
            }
            return frequencies;
        }

        private static RopeScaling linear(double theta, int dims, double factor) {
            float[] frequencies = plain(theta, dims);
            for (int i = 0; i < frequencies.length; i++) {
                frequencies[i] /= (float) factor;
            }
            return regime -> frequencies;
        }

        /**
         * Divides low frequencies by the factor, keeps high ones and interpolates between (Grattafiori et al. 2024).
         */
        private static RopeScaling llama3(JsonConfig rope, float[] frequencies) {
            double factor = rope.number("factor");
            double low = rope.number("low_freq_factor");
            double high = rope.number("high_freq_factor");
            double context = rope.size("original_max_position_embeddings");
            float[] scaled = new float[frequencies.length];
            for (int i = 0; i < scaled.length; i++) {
                double wavelength = 2 * Math.PI / frequencies[i];
                double blend = Math.clamp((context / wavelength - low) / (high - low), 0, 1);
                scaled[i] = (float) ((1 - blend) * frequencies[i] / factor + blend * frequencies[i]);
            }
            return regime -> scaled;
        }
    }

    /** Dynamic NTK: beyond the context length the base grows with the length, so every such length is a regime. */
    private record DynamicNtk(double theta, int dims, double factor, int context) implements RopeScaling {
        @Override
        public int regime(int length) {
            return length <= context ? 0 : length;
        }

        @Override
        public float[] frequencies(int regime) {
            double length = Math.max(regime, context);
            double grown = factor * length / context - (factor - 1);
            return RopeScaling.plain(theta * StrictMath.pow(grown, dims / (dims - 2.0)), dims);
        }
    }

    /** Interpolates low frequencies, keeps high ones and scales attention (Peng et al. 2023). */
    record Yarn(float[] table, float attentionFactor) implements RopeScaling {
        static Yarn of(JsonConfig config, JsonConfig rope, double theta, int dims) {
            if (!rope.bool("truncate", true)) {
                throw rope.invalid("truncate", "true: the other form is not supported");
            }
            double factor = rope.number("factor");
            double context = rope.size("original_max_position_embeddings", config.size("max_position_embeddings"));
            double low = Math.floor(correctionDim(rope.number("beta_fast", 32), dims, theta, context));
            double high = Math.ceil(correctionDim(rope.number("beta_slow", 1), dims, theta, context));
            low = Math.max(low, 0);
            high = Math.min(high, dims - 1);
            float[] table = new float[dims / 2];
            for (int i = 0; i < table.length; i++) {
                double ramp = Math.clamp((i - low) / (high == low ? 0.001 : high - low), 0, 1);
                double frequency = 1 / StrictMath.pow(theta, 2.0 * i / dims);
                table[i] = (float) (frequency / factor * ramp + frequency * (1 - ramp));
            }
            return new Yarn(table, (float) attention(rope, factor));
        }

        private static double correctionDim(double rotations, int dims, double theta, double context) {
            return dims * StrictMath.log(context / (rotations * 2 * Math.PI)) / (2 * StrictMath.log(theta));
        }

        private static double attention(JsonConfig rope, double factor) {
            if (rope.has("attention_factor")) {
                return rope.number("attention_factor");
            }
            return rope.has("mscale") && rope.has("mscale_all_dim")
                    ? mscale(factor, rope.number("mscale")) / mscale(factor, rope.number("mscale_all_dim"))
                    : mscale(factor, 1);
        }

        static double mscale(double factor, double scale) {
            return factor <= 1 ? 1 : 0.1 * scale * StrictMath.log(factor) + 1;
        }

        @Override
        public float[] frequencies(int regime) {
            return table;
        }
    }

    /** Each frequency has two divisors: one within the original context and one beyond it (Ding et al. 2024). */
    private record LongRope(float[] within, float[] beyond, int context, float attentionFactor) implements RopeScaling {
        static LongRope of(JsonConfig config, JsonConfig rope, double theta, int dims) {
            int context = rope.size(
                    "original_max_position_embeddings",
                    config.size("original_max_position_embeddings", config.size("max_position_embeddings")));
            double factor = rope.number("factor", (double) config.size("max_position_embeddings") / context);
            double attentionFactor = rope.number(
                    "attention_factor",
                    factor <= 1 ? 1 : Math.sqrt(1 + StrictMath.log(factor) / StrictMath.log(context)));
            return new LongRope(
                    divided(rope, "short_factor", theta, dims),
                    divided(rope, "long_factor", theta, dims),
                    context,
                    (float) attentionFactor);
        }

        private static float[] divided(JsonConfig rope, String key, double theta, int dims) {
            double[] divisors = rope.numbers(key);
            float[] frequencies = new float[dims / 2];
            if (divisors.length != frequencies.length) {
                throw rope.invalid(key, frequencies.length + " numbers");
            }
            for (int i = 0; i < frequencies.length; i++) {
                frequencies[i] = 1f / ((float) divisors[i] * (float) StrictMath.pow(theta, 2f * i / dims));
            }
            return frequencies;
        }

        @Override
        public int regime(int length) {
            return length > context ? 1 : 0;
        }

        @Override
        public float[] frequencies(int regime) {
            return regime == 0 ? within : beyond;
        }
    }
}
