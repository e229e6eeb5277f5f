package dev.starforge.bench.dataset;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The commands that measure the dataset pipeline. */
public final class DatasetCommands {
    private DatasetCommands() {}

    @Command(
            name = "dataset-speed",
            mixinStandardHelpOptions = true,
            description = {
                "Times `starforge dataset` and `git log -p -M --diff-merges=first-parent --topo-order` alternately"
                        + " with a warm cache.",
                "",
                "`read` is the part that git log does too: from the objects to commits.jsonl, without and with the"
                        + " start of the program, as --json reports it. `clock` is wall time until the chunks stage"
                        + " begins. `all` is the whole command, with functions, duplicates, tokens and checks. CPU is user"
                        + " and system time.",
                "Then compares every count of added and removed lines with git's, and applies random patches with git"
                        + " apply.",
                "Without a repository it uses this one and a generated history of the sources of several versions of"
                        + " JGit."
            })
    public static final class DatasetSpeedCommand implements Callable<Integer> {
        @Option(
                names = "--commits",
                paramLabel = "N",
                defaultValue = "10000",
                description = "Commits of the generated history (default: ${DEFAULT-VALUE}).")
        int commits;

        @Option(
                names = "--seed",
                paramLabel = "N",
                defaultValue = "11",
                description = "Seed of the history and of the choice of patches (default: ${DEFAULT-VALUE}).")
        long seed;

        @Option(
                names = "--rounds",
                paramLabel = "N",
                defaultValue = "2",
                description = "Measurements of each program (default: ${DEFAULT-VALUE}).")
        int rounds;

        @Option(
                names = "--patches",
                paramLabel = "N",
                defaultValue = "200",
                description = "Patches to apply (default: ${DEFAULT-VALUE}).")
        int patches;

        @Parameters(paramLabel = "REPOSITORY", arity = "0..*", description = "Repositories to read.")
        List<Path> repositories = List.of();

        @Override
        public Integer call() throws IOException, InterruptedException {
            return new DatasetSpeed(commits, seed, rounds, patches).run(repositories) ? 0 : 1;
        }
    }

    @Command(
            name = "tokenizer-speed",
            mixinStandardHelpOptions = true,
            description = "Measures MB/s of encode and decode on one core, for each golden tokenizer.")
    public static final class TokenizerSpeedCommand implements Callable<Integer> {
        @Parameters(paramLabel = "FOLDER", description = "Source files to encode.")
        Path folder;

        @Override
        public Integer call() throws IOException {
            TokenizerSpeed.run(folder);
            return 0;
        }
    }

    @Command(
            name = "secrets-score",
            mixinStandardHelpOptions = true,
            description = {
                "Measures the redaction of secrets: recall and precision on planted secrets, by style and provider,"
                        + " for the set that the rules were tuned on and for the held-out sets.",
                "For each repository it redacts the files of the last commit and prints lines, redactions by rule, and"
                        + " masked examples."
            })
    public static final class SecretsScoreCommand implements Callable<Integer> {
        @Option(
                names = "--show",
                description = "Prints every miss, every false positive and every redaction, unmasked.")
        boolean show;

        @Parameters(paramLabel = "REPOSITORY", arity = "0..*", description = "Repositories to redact.")
        List<Path> repositories = List.of();

        @Override
        public Integer call() throws IOException {
            SecretsScore.run(show, repositories);
            return 0;
        }
    }
}
