package org.example.embed;

import dev.starforge.api.CodeModel;
import dev.starforge.api.CodeModelServer;
import dev.starforge.api.Completion;
import dev.starforge.api.GenerationConfig;
import dev.starforge.api.MergeResult;
import dev.starforge.api.ServeConfig;
import dev.starforge.api.Starforge;
import dev.starforge.api.StarforgeException;
import dev.starforge.api.TrainResult;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Shows the whole API without a model file: trains a tiny new model on a few lines, trains a LoRA adapter for it on other lines,
 * merges the two, and generates with the result. With a model of your own, you need only the second half.
 */
public final class Embed {
    public static void main(String[] args) throws IOException {
        Path work = Files.createTempDirectory(Files.createDirectories(Path.of(args[0])), "run");
        Path config = Files.writeString(work.resolve("train.yaml"), """
            model: {pretrained_model: scratch, context_window: 64, hidden_size: 64, num_hidden_layers: 2, vocab_size: 300}
            quantization: {lora_enabled: false}
            optimization: {batch_size: 2, gradient_accumulation_steps: 1, learning_rate: 1e-2}
            training: {max_steps: 12, samples: 0}
            data: {train: %s}
            """.formatted(
                        lines(work.resolve("first.jsonl"), "def add(a, b): return a + b")));

        System.out.println("devices: "
                + Starforge.devices().stream().map(device -> device.kind()).toList());
        try (Starforge starforge = Starforge.open(args[1], work.resolve("kernels"))) {
            System.out.println("on: " + starforge.device().name() + ", because: " + starforge.reason());

            TrainResult base = train(starforge, config, List.of("output.output_dir=" + work.resolve("base")));
            TrainResult adapter = train(
                    starforge,
                    config,
                    List.of(
                            "output.output_dir=" + work.resolve("adapter"),
                            "model.pretrained_model=" + base.run(),
                            "data.train=" + lines(work.resolve("second.jsonl"), "def sub(a, b): return a - b"),
                            "quantization.lora_enabled=true",
                            "quantization.load_in_4bit=false"));

            MergeResult merged = starforge.merge(adapter.run(), work.resolve("tuned.gguf"));
            System.out.println("merged: logits differ by " + merged.difference() + " from base + adapter, at most "
                    + merged.bound() + " allowed");

            try (CodeModel model = starforge.load(merged.model())) {
                System.out.print("streamed: ");
                Completion completion = model.complete("def ", GenerationConfig.greedy(16), piece -> {
                    System.out.print(piece);
                    return true;
                });
                System.out.println();
                System.out.println("again: "
                        + model.complete("def ", GenerationConfig.greedy(16)).text());
                System.out.println("ended by " + completion.endReason() + " after " + completion.tokens() + " tokens");
            }
            try (CodeModelServer server =
                    Starforge.serve(args[1], work.resolve("kernels"), merged.model(), ServeConfig.local("tuned", 0))) {
                System.out.println("served: " + get(server.uri().resolve("/v1/models")));
            }
            try (CodeModel missing = starforge.load(work.resolve("missing.gguf"))) {
                System.out.println(missing.architecture());
            } catch (StarforgeException expected) {
                System.out.println("refused: " + expected.getMessage());
            }
        }
    }

    private static TrainResult train(Starforge starforge, Path config, List<String> settings) {
        double[] losses = new double[2];
        TrainResult trained = starforge.train(config, settings, false, step -> {
            losses[step.step() == 1 ? 0 : 1] = step.loss();
            return true;
        });
        System.out.printf(
                "trained: %s after %d steps, loss %s%n",
                trained.outcome(), trained.steps(), losses[1] < losses[0] ? "fell" : "did not fall");
        return trained;
    }

    private static String get(URI uri) throws IOException {
        try (InputStream body = uri.toURL().openStream()) {
            return new String(body.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static Path lines(Path file, String text) throws IOException {
        return Files.writeString(file, ("{\"text\": \"" + text + "\"}\n").repeat(40));
    }

    private Embed() {}
}
