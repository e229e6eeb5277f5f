package dev.starforge.train.run;

import dev.starforge.tensor.Philox;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DataFacts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Small runs on a golden model. */
public final class Runs {
    private Runs() {}

    /** What a run said. */
    static class Said implements RunEvents {
        final List<Step> steps = new ArrayList<>();
        final List<String> notes = new ArrayList<>();
        final List<Double> evaluations = new ArrayList<>();
        final Map<String, DataFacts> data = new HashMap<>();
        final List<Long> evaluating = new ArrayList<>();

        @Override
        public void step(Step step) {
            steps.add(step);
        }

        @Override
        public void data(String split, DataFacts facts) {
            data.put(split, facts);
        }

        @Override
        public void evaluating(long step, long tokens, long all, double seconds) {
            evaluating.add(tokens);
        }

        @Override
        public void evaluated(long step, double loss, boolean best) {
            evaluations.add(loss);
        }

        @Override
        public void note(String text) {
            notes.add(text);
        }

        List<Double> losses() {
            return steps.stream().map(Step::loss).toList();
        }
    }

    public static Path sequences(Path folder, String name, int count, int length) throws IOException {
        String all = IntStream.range(0, count)
                .mapToObj(s -> IntStream.range(0, length)
                        .mapToObj(i -> String.valueOf((int) (Philox.uniform(name.length(), s, i) * 40)))
                        .collect(Collectors.joining(",", "[", "]")))
                .collect(Collectors.joining(",", "[", "]"));
        return Files.writeString(
                folder.resolve(name),
                "{\"token_sequences\": " + all + ", \"vocab_size\": 640, \"num_sequences\": " + count + "}");
    }

    public static RunConfig config(Path folder, String... settings) throws IOException {
        List<String> all = new ArrayList<>(List.of(
                "model.pretrained_model=\"" + Tiny.STARCODER + "\"",
                "model.context_window=64",
                "model.dtype=fp32",
                "quantization.load_in_4bit=false",
                "quantization.lora_rank=4",
                "data.train=\"" + sequences(folder, "train.json", 24, 50) + "\"",
                "data.validation=\"" + sequences(folder, "valid.json", 3, 40) + "\"",
                "optimization.batch_size=4",
                "optimization.gradient_accumulation_steps=1",
                "optimization.learning_rate=1e-2",
                "training.num_epochs=2",
                "training.eval_steps=3",
                "training.save_steps=4",
                "training.patience=0",
                "output.output_dir=\"" + folder.resolve("run") + "\""));
        all.addAll(List.of(settings));
        return RunConfig.defaults().set(all);
    }

    public static TrainRun.Setup setup(RunConfig config, Device device, boolean resume, RunEvents events) {
        return new TrainRun.Setup(
                config,
                Path.of(config.model()),
                Optional.empty(),
                device,
                config.precision(),
                Fallback.FORBIDDEN,
                0,
                resume,
                Checkpoints.REAL,
                System::nanoTime,
                events);
    }

    static Said run(RunConfig config, boolean resume) {
        Said said = new Said();
        try (Device device = Tiny.cpu(2);
                RunFolder folder = RunFolder.claim(config, resume);
                TrainRun run = new TrainRun(setup(config, device, resume, said))) {
            folder.finishOverwrite();
            run.run();
        }
        return said;
    }
}
