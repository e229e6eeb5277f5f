package dev.starforge.bench.train;

import dev.starforge.bench.process.Programs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Trains with several learning rates and ranks as {@code tune} does, and evaluates each. */
@Command(
        name = "tune-sweep",
        mixinStandardHelpOptions = true,
        description = {
            "Finds the learning rate and rank that `tune` should use for its base model.",
            "",
            "Tunes on a clone of the repository for a minute, then trains with each pair on the newest tokens and"
                    + " prints bits per byte on held-out commits: of the base, of the tuned model, and the difference."
                    + " Alpha is twice the rank.",
            "Example: ./dev tune-sweep . 150 1e-3:32 3e-3:32 1e-2:32 3e-3:8"
        })
public final class TuneSweep implements Callable<Integer> {
    private static final int TOKENS_PER_STEP = 2048;

    @Parameters(index = "0", paramLabel = "REPOSITORY", description = "Repository to tune on; it is cloned.")
    Path repository;

    @Parameters(
            index = "1",
            paramLabel = "STEPS",
            arity = "0..1",
            defaultValue = "150",
            description = "Optimizer steps of each pair (default: ${DEFAULT-VALUE}).")
    int steps;

    @Parameters(
            index = "2..*",
            paramLabel = "RATE:RANK",
            arity = "0..*",
            description = "Pairs to try (default: 1e-3:32 3e-3:32 1e-2:32 3e-3:8 3e-3:64).")
    List<String> pairs = List.of("1e-3:32", "3e-3:32", "1e-2:32", "3e-3:8", "3e-3:64");

    @Override
    public Integer call() throws IOException, InterruptedException {
        Path folder = Files.createTempDirectory("tune-sweep");
        try {
            String clone = folder.resolve("clone").toString();
            Programs.run("git", "clone", "-q", "--no-hardlinks", repository.toString(), clone);
            Programs.starforge("tune", "--repo", clone, "--minutes", "1", "--yes");
            String config =
                    Path.of(clone, ".starforge", "runs", "1", "config.yaml").toString();
            for (String pair : pairs) {
                String[] parts = pair.split(":");
                String output = trained(config, folder.resolve(pair).toString(), parts[0], Integer.parseInt(parts[1]));
                Programs.linesWith("^bits per byte", output)
                        .forEach(line ->
                                System.out.printf("rate %s, rank %s, %d steps: %s%n", parts[0], parts[1], steps, line));
            }
        } finally {
            Programs.delete(folder);
        }
        return 0;
    }

    private String trained(String config, String run, String rate, int rank) throws IOException, InterruptedException {
        Programs.starforge(
                "train",
                "--config",
                config,
                "--out",
                run,
                "--set",
                "optimization.learning_rate=" + rate,
                "--set",
                "quantization.lora_rank=" + rank,
                "--set",
                "quantization.lora_alpha=" + 2 * rank,
                "--set",
                "training.max_steps=" + steps,
                "--set",
                "training.newest_tokens=" + steps * TOKENS_PER_STEP,
                "--set",
                "training.samples=0");
        return Programs.starforge(
                "eval", "--config", run + "/config.yaml", "--adapter", run, "--samples", "0", "--max-tokens", "32768");
    }
}
