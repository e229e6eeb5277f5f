package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.Quantization;
import dev.starforge.tensor.device.Device;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.merge.Merge;
import dev.starforge.train.merge.MergeProof;
import dev.starforge.train.merge.ModelFormat;
import dev.starforge.train.run.Runs.Said;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What holds for a run on every architecture: resumed it is what it would have been, and merged it is what it was. */
final class EveryModelTest {
    private static final int STEPS = 4;

    @TempDir
    Path folder;

    static List<Path> models() throws IOException {
        try (Stream<Path> folders = Files.list(Tiny.GOLDEN)) {
            return folders.sorted().toList();
        }
    }

    private RunConfig config(Path model, String run) throws IOException {
        return Runs.config(
                folder,
                "model.pretrained_model=\"" + model + "\"",
                "quantization.lora_dropout=0.1",
                "optimization.batch_size=2",
                "optimization.learning_rate=3e-2",
                "training.max_steps=" + STEPS,
                "training.eval_steps=0",
                "training.samples=0",
                "output.output_dir=\"" + folder.resolve(run) + "\"");
    }

    @ParameterizedTest
    @MethodSource("models")
    void aRunResumesBitForBitAndItsAdapterMerges(Path model) throws IOException {
        Said whole = Runs.run(config(model, "whole"), false);
        RunConfig parts = config(model, "parts");
        List<Double> losses = new ArrayList<>(untilStep(2, parts).losses());
        assertThat(losses).hasSize(2);
        losses.addAll(Runs.run(parts, true).losses());
        assertThat(losses).hasSize(STEPS).isEqualTo(whole.losses());
        Path trained = Checkpoints.resolve(folder.resolve("whole"));
        Path resumed = Checkpoints.resolve(folder.resolve("parts"));
        for (String file : List.of("adapter_model.safetensors", "optimizer.safetensors")) {
            assertThat(resumed.resolve(file)).hasSameBinaryContentAs(trained.resolve(file));
        }
        try (Device device = Tiny.cpu(2);
                Merge merge = new Merge(model, resumed, Quantization.NONE, device)) {
            MergeProof proof = merge.write(folder.resolve("merged"), ModelFormat.HF, "F32", 1 << 20)
                    .proof();
            assertThat(proof.holds()).as(proof.verdict()).isTrue();
        }
    }

    /** A run that is told to stop once it has taken so many steps. */
    private static Said untilStep(int last, RunConfig config) {
        AtomicReference<TrainRun> running = new AtomicReference<>();
        Said said = new Said() {
            @Override
            public void step(Step step) {
                super.step(step);
                if (step.step() == last) {
                    running.get().stop();
                }
            }
        };
        try (Device device = Tiny.cpu(1);
                RunFolder _ = RunFolder.claim(config, false);
                TrainRun run = new TrainRun(Runs.setup(config, device, false, said))) {
            running.set(run);
            assertThat(run.run()).isEqualTo(TrainRun.End.INTERRUPTED);
        }
        return said;
    }
}
