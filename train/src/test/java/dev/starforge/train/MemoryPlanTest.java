package dev.starforge.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.Blueprint;
import dev.starforge.model.ModelFiles;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Precision;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What was planned against what was taken. */
final class MemoryPlanTest {
    @ParameterizedTest
    @CsvSource({"true, adamw, false", "true, adamw_8bit, true", "false, adamw, true", "false, adamw_8bit, false"})
    void isWhatARunTakes(boolean lora, String optimizer, boolean checkpointing) {
        RunConfig config = RunConfig.defaults()
                .set(List.of(
                        "quantization.lora_enabled=" + lora,
                        "quantization.lora_rank=8",
                        "optimization.gradient_accumulation_steps=2",
                        "optimization.optimizer=" + optimizer));
        int batch = 3;
        int context = 100;
        try (Device device = Tiny.cpu(2);
                ModelFiles files = ModelFiles.open(Tiny.STARCODER)) {
            MemoryPlan plan = MemoryPlan.of(
                    Blueprint.read(Tiny.STARCODER.resolve("config.json")),
                    config,
                    Storage.FP32,
                    batch,
                    context,
                    checkpointing,
                    device);
            Subject subject = lora
                    ? Subject.Adapted.load(
                            files, "base", TrainRun.lora(config, "starcoder2"), 1, device, Precision.FLOAT32)
                    : Subject.Whole.load(files, Tiny.STARCODER, device);
            try (subject;
                    Trainer trainer = new Trainer(
                            subject.model(),
                            subject.parameters(),
                            device,
                            Precision.FLOAT32,
                            Fallback.FORBIDDEN,
                            TrainRun.settings(config, checkpointing))) {
                List<Example> full = TrainRun.full(batch, context);
                trainer.step(List.of(full, full), 1e-3, 0);
                long weights = switch (subject) {
                    case Subject.Adapted adapted -> adapted.scope().usedBytes();
                    case Subject.Whole whole -> whole.scope().usedBytes();
                };
                long taken = weights + trainer.stateBytes() + trainer.peakBytes() + device.workspaceBytes();
                assertThat((double) plan.total() / taken).isBetween(0.85, 1.15);
            }
        }
    }

    @Test
    void aModelThatIsNotHereIsPlannedWithoutTakingItsMemory() {
        Blueprint model = KnownModels.find("bigcode/starcoder2-3b").orElseThrow();
        try (Device device = Tiny.cpu(2)) {
            long before = Machine.residentBytes();
            MemoryPlan plan = MemoryPlan.of(model, RunConfig.defaults(), Storage.NF4, 2, 2048, true, device);
            assertThat(Machine.residentBytes() - before).isLessThan(1L << 30);
            // 2.88 G elements of NF4 in blocks of 64 with quantized scales, 151 M of embedding in 16 bits, vectors in
            // 32
            assertThat(plan.weights()).isBetween(1_750_000_000L, 1_850_000_000L);
            assertThat(plan.trained()).isEqualTo(4L * 30 * 32 * (2 * 6144 + 2 * (3072 + 256) + 2 * 15360));
            assertThat(plan.state()).isEqualTo(2 * plan.trained());
            assertThat(plan.total()).isBetween(4L << 30, 7L << 30);
            MemoryPlan kept = MemoryPlan.of(model, RunConfig.defaults(), Storage.NF4, 2, 2048, false, device);
            assertThat(kept.step()).isGreaterThan(4 * plan.step());
            MemoryPlan int8 = MemoryPlan.of(model, RunConfig.defaults(), Storage.INT8, 2, 2048, true, device);
            assertThat(int8.weights()).isBetween(3_150_000_000L, 3_350_000_000L);
        }
    }
}
