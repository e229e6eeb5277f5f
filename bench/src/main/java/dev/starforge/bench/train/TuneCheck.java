package dev.starforge.bench.train;

import dev.starforge.bench.process.Programs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Kills {@code tune} twice, lets it finish, and runs it again after new commits. */
@Command(
        name = "tune-check",
        mixinStandardHelpOptions = true,
        description = {
            "Checks that `tune` resumes after it is killed, beats its base model, and trains again on new commits"
                    + " only.",
            "",
            "Runs on a clone without the ten newest commits. Kills tune with SIGKILL at a random moment and again"
                    + " while it trains; both times it must resume. The tuned model must be better than its base on"
                    + " held-out commits, with an interval clear of zero. Then the ten commits are added: only those may"
                    + " be trained on, and the gain must remain."
        })
public final class TuneCheck implements Callable<Integer> {
    private static final int NEW_COMMITS = 10;
    private static final Pattern TRAINED_COMMITS = Pattern.compile(" newest first: .* of (\\d+) commits");
    private static final String GAIN = "the interval is clear of zero";

    @Parameters(index = "0", paramLabel = "REPOSITORY", description = "Repository to tune on; it is cloned.")
    Path repository;

    @Parameters(
            index = "1",
            paramLabel = "MINUTES",
            arity = "0..1",
            defaultValue = "5",
            description = "Time of each run of tune (default: ${DEFAULT-VALUE}).")
    int minutes;

    @Parameters(
            index = "2",
            paramLabel = "SEED",
            arity = "0..1",
            defaultValue = "1",
            description = "Chooses the moments of the kills (default: ${DEFAULT-VALUE}).")
    long seed;

    @Override
    public Integer call() throws IOException, InterruptedException {
        Path folder = Files.createTempDirectory("tune-check");
        try {
            run(folder, folder.resolve("clone").toString());
        } finally {
            Programs.delete(folder);
        }
        System.out.println("tune-check: ok");
        return 0;
    }

    private void run(Path folder, String clone) throws IOException, InterruptedException {
        Programs.starforge("--version"); // builds it
        Programs.run("git", "clone", "-q", "--no-hardlinks", repository.toString(), clone);
        String head = Programs.run("git", "-C", clone, "rev-parse", "HEAD").strip();
        Programs.run("git", "-C", clone, "reset", "-q", "--hard", "HEAD~" + NEW_COMMITS);

        Random random = new Random(seed);
        if (!killed(clone, folder.resolve("first.log"), "Tunes", random.nextInt(60 * minutes))) {
            System.out.println("ended before it was killed");
        }
        Path training = folder.resolve("training.log");
        if (killed(clone, training, "2/5", 5 + random.nextInt(10 * minutes))) {
            require(contains(training, "(?m)^Continues"), "it did not resume");
        }

        Path second = folder.resolve("second.log");
        tune(clone, second);
        print(second, "^\\d/5|^Done|^bits per byte");
        require(contains(second, "(?m)^(Continues|Up to date)"), "it did not resume");
        require(contains(second, GAIN), "not better than its base model");

        Programs.run("git", "-C", clone, "reset", "-q", "--hard", head);
        Path third = folder.resolve("third.log");
        tune(clone, third);
        print(third, "^\\d/5|tokens \\(|^Done|^bits per byte");
        require(contains(third, "on new commits only"), "it did not train on the new commits");
        Matcher commits = TRAINED_COMMITS.matcher(Files.readString(third));
        require(commits.find(), "the number of commits is missing");
        int count = Integer.parseInt(commits.group(1));
        require(
                count >= 1 && count <= NEW_COMMITS,
                "trained on " + count + " commits, expected at most " + NEW_COMMITS);
        require(contains(third, GAIN), "the gain was lost");
    }

    /** Not the launcher script of the sources, so that a kill reaches the program itself. */
    private Process start(String clone, Path log) throws IOException {
        String program = Programs.ROOT
                .resolve(Path.of("target", "starforge", "starforge"))
                .toString();
        List<String> command =
                List.of(program, "tune", "--repo", clone, "--minutes", Integer.toString(minutes), "--yes");
        return new ProcessBuilder(command)
                .directory(Programs.ROOT.toFile())
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
    }

    private void tune(String clone, Path log) throws IOException, InterruptedException {
        int exitCode = start(clone, log).waitFor();
        require(exitCode == 0, "exit code " + exitCode + "\n" + Files.readString(log));
    }

    /** Kills tune some seconds after a line that begins with {@code prefix}. Returns false if it ended before. */
    private boolean killed(String clone, Path log, String prefix, int seconds)
            throws IOException, InterruptedException {
        Process process = start(clone, log);
        Pattern begin = Pattern.compile("(?m)^" + prefix);
        while (!begin.matcher(Files.readString(log)).find()) {
            if (process.waitFor(200, TimeUnit.MILLISECONDS)) {
                return false;
            }
        }
        if (process.waitFor(Duration.ofSeconds(seconds))) {
            return false;
        }
        process.destroyForcibly().waitFor();
        List<String> stages = Programs.linesWith("^[0-9]/5|^Tunes|^Continues", Files.readString(log));
        System.out.println("killed " + seconds + " s after: " + stages.getLast());
        return true;
    }

    private static void print(Path log, String regex) throws IOException {
        Programs.linesWith(regex, Files.readString(log)).forEach(System.out::println);
    }

    private static boolean contains(Path log, String regex) throws IOException {
        return Pattern.compile(regex).matcher(Files.readString(log)).find();
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError("tune-check: " + otherwise);
        }
    }
}
