package dev.starforge.bench.dataset;

import dev.starforge.bench.process.Programs;
import dev.starforge.data.dataset.HistoryCheck;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Compares the speed of {@code starforge dataset} with {@code git log -p}, and its counts and patches with git's. */
final class DatasetSpeed {
    private static final JsonMapper JSON = new JsonMapper();
    private static final Pattern JGIT_VERSION = Pattern.compile("<jgit.version>(.*)</jgit.version>");
    private static final List<String> OLDER_JGITS = List.of("6.10.1.202505221210-r", "7.4.0.202509020913-r");

    /** Prints real, user and system seconds of a command to stderr; the command's own stderr goes to stdout, and its stdout to $0. */
    private static final String TIME = "TIMEFORMAT='%R %U %S'; time \"$@\" 2>&1 >\"$0\"";

    private final int commits;
    private final long seed;
    private final int rounds;
    private final int patches;

    DatasetSpeed(int commits, long seed, int rounds, int patches) {
        this.commits = commits;
        this.seed = seed;
        this.rounds = rounds;
        this.patches = patches;
    }

    /** Measures each repository. Returns true if every count and patch agrees with git. */
    boolean run(List<Path> repositories) throws IOException, InterruptedException {
        Programs.starforge("dataset", "--help"); // builds it
        Path work = Files.createTempDirectory("dataset-speed");
        boolean same = true;
        try {
            List<Path> all = repositories.isEmpty() ? List.of(Programs.ROOT, generated(work)) : repositories;
            for (Path repository : all) {
                same &= measure(repository, work);
            }
        } finally {
            Programs.delete(work);
        }
        return same;
    }

    private Path generated(Path work) throws IOException, InterruptedException {
        Matcher newest = JGIT_VERSION.matcher(Files.readString(Programs.ROOT.resolve("pom.xml")));
        if (!newest.find()) {
            throw new IOException("pom.xml: expected jgit.version");
        }
        List<String> versions = new ArrayList<>(OLDER_JGITS);
        versions.add(newest.group(1));
        Path jars = work.resolve("jars");
        List<Map<String, String>> sources = new ArrayList<>();
        for (String version : versions) {
            Programs.run(
                    Programs.ROOT.resolve("mvnw").toString(),
                    "-q",
                    "-N",
                    "dependency:copy",
                    "-Dartifact=org.eclipse.jgit:org.eclipse.jgit:" + version + ":jar:sources",
                    "-DoutputDirectory=" + jars);
            sources.add(SyntheticHistory.sources(jars.resolve("org.eclipse.jgit-" + version + "-sources.jar")));
        }
        Path history = work.resolve("history.git");
        SyntheticHistory.make(history, sources, commits, seed);
        return history;
    }

    private boolean measure(Path repository, Path work) throws IOException, InterruptedException {
        String count = Programs.run("git", "-C", repository.toString(), "rev-list", "--count", "HEAD");
        System.out.println(repository + ": " + count.strip() + " commits");
        List<String> log = List.of(
                "git", "-C", repository.toString(), "log", "-p", "-M", "--diff-merges=first-parent", "--topo-order");
        Path out = work.resolve("out");
        List<String> dataset = List.of(
                Programs.STARFORGE, "dataset", "--repo", repository.toString(), "--out", out.toString(), "--json");
        Path report = work.resolve("report.json");
        timed(log, work.resolve("stdout"));
        for (int round = 0; round < rounds; round++) {
            Time git = timed(log, work.resolve("stdout"));
            Programs.delete(out);
            Time ours = timed(dataset, report);
            print(git, ours, JSON.readTree(Files.readAllBytes(report)));
        }
        JsonNode last = JSON.readTree(Files.readAllBytes(report));
        System.out.printf(
                "  peak heap %.0f MB; seconds by stage: %s%n  dropped: %s%n",
                number(last, "peak_heap_bytes") / 1e6, last.findValue("seconds"), last.findValue("dropped"));
        return check(repository, out.resolve("commits.jsonl.gz"));
    }

    private static void print(Time git, Time ours, JsonNode report) {
        double read = number(report, "walk") + number(report, "history");
        double withStart = number(report, "start") + number(report, "open") + read;
        System.out.printf("  git log %.2f s (CPU %.2f)", git.wall, git.cpu);
        System.out.printf(" | read %.2f s, %.2f of its speed", read, git.wall / read);
        System.out.printf("; with start %.2f s, %.2f", withStart, git.wall / withStart);
        System.out.printf("; clock %.2f s, %.2f", ours.untilChunks, git.wall / ours.untilChunks);
        System.out.printf(" | all %.2f s, %.3f (CPU %.2f)%n", ours.wall, git.wall / ours.wall, ours.cpu);
    }

    private boolean check(Path repository, Path file) throws IOException, InterruptedException {
        HistoryCheck.Result result = HistoryCheck.check(repository, file, patches, seed);
        System.out.printf(
                "  %d commits, %d files: %d differ from git's counts; %d patches applied, %d wrong%n",
                result.commits(),
                result.files(),
                result.differences().size(),
                result.patches(),
                result.wrong().size());
        Stream.concat(result.differences().stream(), result.wrong().stream())
                .limit(10)
                .forEach(System.out::println);
        return result.commits() > 0
                && result.differences().isEmpty()
                && result.wrong().isEmpty();
    }

    private static double number(JsonNode report, String name) {
        return report.findValue(name).doubleValue();
    }

    /** Seconds of a command: wall time, CPU time, and wall time until the first line that begins with {@code chunks:}. */
    private record Time(double wall, double cpu, double untilChunks) {}

    private static Time timed(List<String> command, Path stdout) throws IOException, InterruptedException {
        List<String> whole = new ArrayList<>(List.of("bash", "-c", TIME, stdout.toString()));
        whole.addAll(command);
        long begin = System.nanoTime();
        Process process =
                new ProcessBuilder(whole).directory(Programs.ROOT.toFile()).start();
        double untilChunks = 0;
        StringBuilder said = new StringBuilder();
        try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("chunks:") && untilChunks == 0) {
                    untilChunks = (System.nanoTime() - begin) / 1e9;
                }
                said.append(line).append('\n');
            }
        }
        String times = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + ": exit code " + process.exitValue() + "\n" + said);
        }
        String[] seconds = times.split("\\s+");
        return new Time(
                Double.parseDouble(seconds[0]),
                Double.parseDouble(seconds[1]) + Double.parseDouble(seconds[2]),
                untilChunks);
    }
}
