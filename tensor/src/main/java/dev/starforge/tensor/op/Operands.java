package dev.starforge.tensor.op;

import java.util.List;

/**
 * Names for the inputs of operations that have more than three, and for their outputs where there are more than two. The
 * components are in the order of the operation's arrays. T is a tensor, its spec, or a backend's view of it.
 */
public final class Operands {
    private Operands() {}

    /**
     * {@link Fused.Attention}.
     *
     * @param scales the scales of k and of v if the cache is int8, otherwise empty
     */
    public record AttentionInputs<T>(T q, T k, T v, T starts, T positions, T tables, List<T> scales) {
        public AttentionInputs {
            scales = List.copyOf(scales);
        }

        public static <T> AttentionInputs<T> of(T[] in) {
            List<T> scales = in.length == 8 ? List.of(in[6], in[7]) : List.of();
            return new AttentionInputs<>(in[0], in[1], in[2], in[3], in[4], in[5], scales);
        }

        /** Returns true if k and v are int8 and have scales. */
        public boolean isInt8() {
            return !scales.isEmpty();
        }

        public T kScales() {
            return scales.get(0);
        }

        public T vScales() {
            return scales.get(1);
        }
    }

    /** {@link Fused.AttentionGrad}: the inputs and outputs of the forward pass, and the gradient of y. */
    public record AttentionGradInputs<T>(AttentionInputs<T> forward, T y, T lse, T dy) {
        public static <T> AttentionGradInputs<T> of(T[] in) {
            AttentionInputs<T> forward = new AttentionInputs<>(in[0], in[1], in[2], in[3], in[4], in[5], List.of());
            return new AttentionGradInputs<>(forward, in[6], in[7], in[8]);
        }
    }

    /** {@link Fused.AttentionGrad}. */
    public record AttentionGradOutputs<T>(T dq, T dk, T dv) {
        public static <T> AttentionGradOutputs<T> of(T[] out) {
            return new AttentionGradOutputs<>(out[0], out[1], out[2]);
        }
    }

    /** {@link Plain.Mask}. */
    public record MaskInputs<T>(T scores, T starts, T positions, T tables) {
        public static <T> MaskInputs<T> of(T[] in) {
            return new MaskInputs<>(in[0], in[1], in[2], in[3]);
        }
    }

    /** {@link Fused.LayerNorm}. */
    public record LayerNormOutputs<T>(T y, T mean, T rstd) {
        public static <T> LayerNormOutputs<T> of(T[] out) {
            return new LayerNormOutputs<>(out[0], out[1], out[2]);
        }
    }

    /** {@link Fused.LayerNormGrad}. */
    public record LayerNormGradInputs<T>(T x, T w, T b, T mean, T rstd, T dy) {
        public static <T> LayerNormGradInputs<T> of(T[] in) {
            return new LayerNormGradInputs<>(in[0], in[1], in[2], in[3], in[4], in[5]);
        }
    }

    /** {@link Fused.LayerNormGrad} with gradients of the weights. */
    public record LayerNormGradOutputs<T>(T dx, T dw, T db) {
        public static <T> LayerNormGradOutputs<T> of(T[] out) {
            return new LayerNormGradOutputs<>(out[0], out[1], out[2]);
        }
    }

    /** {@link Fused.RmsNormGrad}. */
    public record RmsNormGradInputs<T>(T x, T w, T rstd, T dy) {
        public static <T> RmsNormGradInputs<T> of(T[] in) {
            return new RmsNormGradInputs<>(in[0], in[1], in[2], in[3]);
        }
    }

    /** {@link Layers.AddRmsNorm}: h is the sum. */
    public record AddRmsNormOutputs<T>(T h, T y, T rstd) {
        public static <T> AddRmsNormOutputs<T> of(T[] out) {
            return new AddRmsNormOutputs<>(out[0], out[1], out[2]);
        }
    }

    /** {@link Layers.AddLayerNorm}. */
    public record AddLayerNormInputs<T>(T x, T y, T w, T b) {
        public static <T> AddLayerNormInputs<T> of(T[] in) {
            return new AddLayerNormInputs<>(in[0], in[1], in[2], in[3]);
        }
    }

    /** {@link Layers.AddLayerNorm}: h is the sum. */
    public record AddLayerNormOutputs<T>(T h, LayerNormOutputs<T> norm) {
        public static <T> AddLayerNormOutputs<T> of(T[] out) {
            return new AddLayerNormOutputs<>(out[0], new LayerNormOutputs<>(out[1], out[2], out[3]));
        }
    }

    /** {@link Fused.CrossEntropyGrad}. */
    public record CrossEntropyGradInputs<T>(T logits, T labels, T weights, T lse, T dlosses) {
        public static <T> CrossEntropyGradInputs<T> of(T[] in) {
            return new CrossEntropyGradInputs<>(in[0], in[1], in[2], in[3], in[4]);
        }
    }

    /** {@link Adapters.Lora}. */
    public record LoraInputs<T>(T y, T x, T a, T b, T scales, T index) {
        public static <T> LoraInputs<T> of(T[] in) {
            return new LoraInputs<>(in[0], in[1], in[2], in[3], in[4], in[5]);
        }
    }

    /** {@link Adapters.ExpertLora}: the tables, then the sorted rows. */
    public record ExpertLoraInputs<T>(LoraInputs<T> lora, T tokens, T offsets) {
        public static <T> ExpertLoraInputs<T> of(T[] in) {
            return new ExpertLoraInputs<>(LoraInputs.of(in), in[6], in[7]);
        }
    }

    /** {@link Routing.Group}. */
    public record GroupOutputs<T>(T order, T tokens, T offsets) {
        public static <T> GroupOutputs<T> of(T[] out) {
            return new GroupOutputs<>(out[0], out[1], out[2]);
        }
    }

    /** {@link Decoding.StoreInt8}. */
    public record StoreInt8Inputs<T>(T values, T scales, T rows, T x) {
        public static <T> StoreInt8Inputs<T> of(T[] in) {
            return new StoreInt8Inputs<>(in[0], in[1], in[2], in[3]);
        }
    }

    /** {@link Decoding.Sample}. */
    public record SampleInputs<T>(T logits, T settings, T draws, T slots, T uses, T biased, T bias, T allowed) {
        public static <T> SampleInputs<T> of(T[] in) {
            return new SampleInputs<>(in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]);
        }
    }

    /** {@link Decoding.Sample}. */
    public record SampleOutputs<T>(T token, T logProbability, T topIds, T topLogProbabilities) {
        public static <T> SampleOutputs<T> of(T[] out) {
            return new SampleOutputs<>(out[0], out[1], out[2], out[3]);
        }
    }

    /** The counters of {@link Training}'s random numbers, which follow x. */
    public record NoiseInputs<T>(T x, T samples, T positions, T key) {
        public static <T> NoiseInputs<T> of(T[] in) {
            return new NoiseInputs<>(in[0], in[1], in[2], in[3]);
        }
    }

    /** {@link Plain.AdamW}. */
    public record AdamWInputs<T>(T parameter, T m, T v, T gradient, T norm, T rate) {
        public static <T> AdamWInputs<T> of(T[] in) {
            return new AdamWInputs<>(in[0], in[1], in[2], in[3], in[4], in[5]);
        }
    }

    /** {@link Training.AdamW8}. */
    public record AdamW8Inputs<T>(T parameter, T m, T v, T scales, T gradient, T norm, T rate) {
        public static <T> AdamW8Inputs<T> of(T[] in) {
            return new AdamW8Inputs<>(in[0], in[1], in[2], in[3], in[4], in[5], in[6]);
        }
    }
}
