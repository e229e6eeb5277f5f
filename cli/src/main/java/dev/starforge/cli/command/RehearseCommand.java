package dev.starforge.cli.command;

import java.io.PrintWriter;
import java.io.Writer;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/**
 * What the launcher runs once, when it records the JVM's cache: the ways of a common start, so that their classes are
 * loaded and linked and their profiles known before the next one. Hidden, since it does nothing for a user.
 */
@Command(name = "rehearse", hidden = true, description = "Runs samples, for the cache of the next starts.")
final class RehearseCommand implements Callable<Integer> {
    @Parameters(paramLabel = "SAMPLE", description = "A tiny model with a tokenizer.")
    private Path sample;

    @Override
    public Integer call() {
        String model = sample.toString();
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
        return RootCommand.commandLine(args).setOut(nowhere).setErr(nowhere).execute(args);
    }
}
