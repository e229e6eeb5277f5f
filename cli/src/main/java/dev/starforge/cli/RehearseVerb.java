package dev.starforge.cli;

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
@Command(name = "rehearse", hidden = true, description = "Runs the sample model, for the cache of the next starts.")
final class RehearseVerb implements Callable<Integer> {
    @Parameters(paramLabel = "SAMPLE", description = "A tiny model with a tokenizer.")
    private Path sample;

    @Override
    public Integer call() throws IOException {
        Path scratch = Files.createTempDirectory("starforge-rehearsal");
        try {
            Path history = scratch.resolve("history");
            SampleHistory.write(history);
            return rehearse(history.toString(), scratch.resolve("dataset").toString());
        } finally {
            try (Stream<Path> files = Files.walk(scratch)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    private int rehearse(String history, String dataset) {
        PrintWriter nowhere = new PrintWriter(Writer.nullWriter());
        String model = sample.toString();
        int worst = 0;
        for (List<String> args : List.of(
                List.of("dataset", "--repo", history, "--out", dataset, "--tokenizer", "train:1024", "--json"),
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
            String[] words = args.toArray(String[]::new);
            worst = Math.max(
                    worst,
                    Main.commandLine(words).setOut(nowhere).setErr(nowhere).execute(words));
        }
        return worst;
    }
}
