package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.KvCache;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.kv.Batches;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Ops;
import dev.starforge.train.trainer.Trainer;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Models with 16-bit activations have the same bitwise invariants and the right types. */
final class SixteenBitTest {
    @ParameterizedTest
    @CsvSource({"starcoder2, BF16", "starcoder2, F16", "llama3, BF16", "qwen3_moe, BF16", "phi, F16"})
    void cachedEqualsUncached(String name, DType type) {
        Precision precision = Precision.of(type);
        try (TinyModel tiny = new TinyModel(name, "cpu", 0, precision);
                Generator generator = new Generator(tiny.model, tiny.device, precision, Fallback.FORBIDDEN, 24)) {
            int[] ids = tiny.sequence(0);
            float[] whole = tiny.logits(ids);
            generator.feed(Arrays.copyOf(ids, 5));
            for (int i = 5; i < ids.length; i++) {
                assertThat(generator.logits()).as("after " + i + " tokens").isEqualTo(tiny.rows(whole, i - 1, i));
                generator.feedOne(ids[i]);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BF16", "F16"})
    void packingThreadsAndCheckpointingAreBitwiseEqual(DType type) {
        Precision precision = Precision.of(type);
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu", 0, precision)) {
            int[] a = Arrays.copyOf(tiny.sequence(0), 13);
            int[] b = tiny.sequence(1);
            float[] packed = tiny.logits(a, b);
            assertThat(tiny.rows(packed, 0, 13)).isEqualTo(tiny.logits(a));
            assertThat(tiny.rows(packed, 13, 37)).isEqualTo(tiny.logits(b));
        }
        List<Float> one = trace(1, precision, Checkpointing.OFF);
        assertThat(trace(2, precision, Checkpointing.OFF)).isEqualTo(one);
        assertThat(trace(2, precision, Checkpointing.FULL)).isEqualTo(one);
    }

    private static List<Float> trace(int threads, Precision precision, Checkpointing checkpointing) {
        return ModelInvariantsTest.trainingTrace(
                new TinyModel("starcoder2", "cpu", threads, precision), checkpointing, 4);
    }

    /** In every architecture the residual stream has the residual type, and logits are float32. */
    @ParameterizedTest
    @CsvSource({
        "starcoder2",
        "llama3",
        "mistral",
        "mixtral",
        "phi",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "deepseek_v2",
        "deepseek_v3"
    })
    void residualStreamHasItsOwnType(String name) {
        Precision precision = Precision.of(DType.BF16).withResidual(DType.F32);
        try (TinyModel tiny = new TinyModel(name, "cpu", 0, precision);
                Scope step = new Scope(tiny.device)) {
            Ops ops = tiny.device.ops(step, precision, Fallback.FORBIDDEN);
            Batch batch = Batches.packed(tiny.model, step, List.of(tiny.sequence(0)));
            Tensor x = tiny.model.embed(ops, batch);
            assertThat(x.dtype()).isEqualTo(DType.F32);
            x = tiny.model.blocks().getFirst().forward(ops, x, batch, KvCache.NONE);
            assertThat(x.dtype()).isEqualTo(DType.F32);
            assertThat(tiny.model.logits(ops, tiny.model.finalNorm(ops, x)).dtype())
                    .isEqualTo(DType.F32);
        }
    }

    @Test
    void trainedWeightsHaveFloat32Gradients() {
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu", 0, Precision.of(DType.BF16));
                Trainer trainer = tiny.trainer(Checkpointing.OFF);
                TinyModel exact = new TinyModel("starcoder2", "cpu");
                Trainer float32 = exact.trainer(Checkpointing.OFF)) {
            tiny.parameters
                    .values()
                    .forEach(parameter -> assertThat(parameter.dtype()).isEqualTo(DType.F32));
            var rounded = trainer.gradients(tiny.examples()); // reads float32, or throws
            float32.gradients(exact.examples()).forEach((parameter, gradient) -> {
                int bits = 0;
                for (float value : rounded.get(parameter)) {
                    bits |= Float.floatToRawIntBits(value) & 0xffff; // what bf16 has not
                }
                assertThat(bits).as(parameter).isNotZero();
                assertThat(ModelInvariantsTest.distance(rounded.get(parameter), gradient))
                        .as(parameter)
                        .isLessThan(0.1);
            });
        }
    }

    @Test
    void stepTakesLessMemory() {
        try (TinyModel narrow = new TinyModel("starcoder2", "cpu", 0, Precision.of(DType.BF16));
                Trainer trainer = narrow.trainer(Checkpointing.OFF);
                TinyModel wide = new TinyModel("starcoder2", "cpu");
                Trainer float32 = wide.trainer(Checkpointing.OFF)) {
            long bytes = trainer.plan(4, 64, Checkpointing.OFF).tensorBytes();
            assertThat((double) bytes / float32.plan(4, 64, Checkpointing.OFF).tensorBytes())
                    .isBetween(0.4, 0.8);
        }
    }
}
