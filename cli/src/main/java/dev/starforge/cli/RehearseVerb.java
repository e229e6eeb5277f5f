package dev.starforge.cli;

import dev.starforge.data.dataset.SampleHistory;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/**
 * What the launcher runs once, when it records the JVM's cache: the ways of a common start, so that their classes are
 * loaded and linked and their profiles known before the next one. Hidden, since it does nothing for a user.
 */
@Command(name = "rehearse", hidden = true, description = "Runs samples, for the cache of the next starts.")
final class RehearseVerb implements Callable<Integer> {
    @Parameters(
            arity = "0..1",
            paramLabel = "SAMPLE",
            description = "A tiny model with a tokenizer; without one, dataset is rehearsed.")
    private Path sample;

    @Override
    public Integer call() throws IOException {
        return sample == null ? rehearseDataset() : rehearseModel(sample.toString());
    }

    private static int rehearseDataset() throws IOException {
        Path scratch = Files.createTempDirectory("starforge-rehearsal");
        try {
            Path history = scratch.resolve("history");
            SampleHistory.write(history);
            return run(
                    "dataset",
                    "--repo",
                    history.toString(),
                    "--out",
                    scratch.resolve("dataset").toString(),
                    "--tokenizer",
                    "train:1024",
                    "--json");
        } finally {
            try (Stream<Path> files = Files.walk(scratch)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    private static int rehearseModel(String model) {
        int worst = 0;
        for (List<String> args : List.of(
                List.of("--help"),
                List.of("devices"),
                List.of("inspect", model),
                List.of("generate", model, "--prompt", "def ", "--device", "cpu"),
                List.of("generate", model, "--prompt", "def ", "--device", "cpu", "--top-k", "40", "--seed", "1"),
                List.of(
                        "bench",
                        "--random",
                        "tiny",
                        "--prompt-tokens",
                        "16",
                        "--gen-tokens",
                        "16",
                        "--repeat",
                        "1",
                        "--no-check",
                        "--no-limits",
                        "--device",
                        "cpu",
                        "--json"))) {
            worst = Math.max(worst, run(args.toArray(String[]::new)));
        }
        return worst;
    }

    private static int run(String... args) {
        PrintWriter nowhere = new PrintWriter(Writer.nullWriter());
        return Main.commandLine(args).setOut(nowhere).setErr(nowhere).execute(args);
    }
}
