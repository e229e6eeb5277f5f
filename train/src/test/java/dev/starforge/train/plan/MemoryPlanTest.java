package dev.starforge.train.plan;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.train.KnownModels;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.run.Tiny;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import dev.starforge.train.weights.TrainableModel;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What was planned against what was taken. */
final class MemoryPlanTest {
    @ParameterizedTest
    @CsvSource({
        "true, none, adamw, false",
        "true, nf4-double, adamw_8bit, true",
        "true, nf4-double, adamw, false",
        "true, int8-64, adamw, selective",
        "false, none, adamw, true",
        "false, none, adamw_8bit, false"
    })
    void thePlanEqualsTheMemoryOfARun(boolean lora, String base, String optimizer, String checkpointing) {
        RunConfig config = RunConfig.defaults()
                .set(List.of(
                        "quantization.lora_enabled=" + lora,
                        "quantization.lora_rank=8",
                        "optimization.gradient_accumulation_steps=2",
                        "optimization.optimizer=" + optimizer,
                        "optimization.gradient_checkpointing=" + checkpointing,
                        "model.dtype=bf16"))
                .quantizedAs(Quantization.parse(base));
        int batch = 3;
        int context = 100;
        try (Device device = Tiny.cpu(2);
                ModelFiles files = ModelFiles.open(Tiny.STARCODER)) {
            MemoryPlan plan = MemoryPlan.of(
                    ModelSpec.read(Tiny.STARCODER.resolve("config.json")), config, batch, context, device);
            TrainableModel subject = lora
                    ? TrainableModel.Lora.load(
                            files,
                            "base",
                            config.quantization(),
                            TrainableModel.lora(config, "starcoder2"),
                            1,
                            device,
                            config.precision())
                    : TrainableModel.Full.load(files, Tiny.STARCODER, device);
            try (subject;
                    Trainer trainer = new Trainer(
                            subject.model(),
                            subject.parameters(),
                            device,
                            config.precision(),
                            Fallback.FORBIDDEN,
                            TrainerSettings.of(config, config.checkpointing()))) {
                List<TrainingExample> full =
                        Collections.nCopies(batch, new TrainingExample(new int[context], new int[context]));
                trainer.step(List.of(full, full), 1e-3, 0);
                long weights = switch (subject) {
                    case TrainableModel.Lora adapted -> adapted.scope().usedBytes();
                    case TrainableModel.Full whole -> whole.scope().usedBytes();
                };
                long taken = weights + trainer.stateBytes() + trainer.peakBytes() + device.workspaceBytes();
                assertThat((double) plan.total() / taken).isBetween(0.85, 1.15);
                if (subject instanceof TrainableModel.Lora adapted) {
                    assertThat(plan.weights() + plan.trained()).isEqualTo(weights);
                    long others = plan.trained() + (1 << 20); // an adapter is reserved as it comes
                    assertThat(adapted.scope().reservedBytes()).isLessThan(plan.weights() + 2 * others);
                }
            }
        }
    }

    @Test
    void aMissingModelIsPlannedWithoutAllocation() {
        ModelSpec model = KnownModels.find("bigcode/starcoder2-3b").orElseThrow();
        try (Device device = Tiny.cpu(2)) {
            long before = Machine.residentBytes();
            RunConfig config =
                    RunConfig.defaults().set(List.of("model.dtype=bf16", "optimization.gradient_checkpointing=true"));
            MemoryPlan plan = MemoryPlan.of(model, config, 2, 2048, device);
            assertThat(Machine.residentBytes() - before).isLessThan(1L << 30);
            long matrices = 30L * (2 * 3072 * 3072 + 2 * 256 * 3072 + 2 * 3072 * 12288);
            long vectors = 30L * (2 * 3072 + 2 * 256 + 12288 + 3072 + 4 * 3072) + 2 * 3072;
            // NF4 with a magnitude of eight bits to 64 weights, one of 32 to 256 of those and a mean to each of six
            // matrices of a block, the embedding in 16 bits, vectors and frequencies in 32
            long nf4 = matrices / 2 + matrices / 64 + 4 * (matrices / 64 / 256) + 4 * 30 * 6;
            long weights = nf4 + 2L * 49152 * 3072 + 4 * vectors;
            assertThat(plan.weights()).isBetween(weights, weights + (64 << 10));
            assertThat(plan.trained()).isEqualTo(4L * 30 * 32 * (2 * 6144 + 2 * (3072 + 256) + 2 * 15360));
            assertThat(plan.state()).isEqualTo(2 * plan.trained());
            assertThat(plan.total()).isBetween(4L << 30, 7L << 30);
            MemoryPlan selective = MemoryPlan.of(model, config.with(Keys.CHECKPOINTING, "selective"), 2, 2048, device);
            MemoryPlan kept = MemoryPlan.of(model, config.with(Keys.CHECKPOINTING, "false"), 2, 2048, device);
            assertThat(selective.step()).isBetween(2 * plan.step(), 6 * kept.step() / 10);
            assertThat(kept.step()).isGreaterThan(4 * plan.step());
            MemoryPlan int8 = MemoryPlan.of(model, config.quantizedAs(new Quantization.Int8(128)), 2, 2048, device);
            assertThat(int8.weights() - plan.weights())
                    .isBetween(matrices / 128 * 130 - nf4 - (64 << 10), matrices / 128 * 130 - nf4);
        }
    }
}
