package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.process.ExitCode;
import dev.starforge.text.file.FolderLock;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The dataset command as a user types it, on a repository that git made. */
final class DatasetCommandTest {
    @TempDir
    Path folder;

    private Path repository() {
        return folder.resolve("repo");
    }

    private String out() {
        return folder.resolve("out").toString();
    }

    private void git(String... args) throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(args).directory(repository().toFile());
        builder.environment().put("HOME", folder.toString());
        builder.environment().put("GIT_AUTHOR_NAME", "A");
        builder.environment().put("GIT_AUTHOR_EMAIL", "a@b.example");
        builder.environment().put("GIT_COMMITTER_NAME", "A");
        builder.environment().put("GIT_COMMITTER_EMAIL", "a@b.example");
        assertThat(builder.inheritIO().start().waitFor()).isZero();
    }

    @BeforeEach
    void makeRepository() throws IOException, InterruptedException {
        Files.createDirectory(repository());
        git("git", "init", "-q", "-b", "main");
        for (int i = 0; i < 4; i++) {
            Files.writeString(
                    repository().resolve("part" + i + ".py"),
                    "def part" + i + "(value):\n    total = value * " + i + "\n    return total + alpha" + i + "\n");
            git("git", "add", ".");
            git("git", "commit", "-q", "-m", "Part " + i, "--date", "2024-01-0" + (i + 1));
        }
    }

    @Test
    void buildsShowsAndGrows() throws IOException, InterruptedException {
        CommandOutcome built =
                run("dataset", "--repo", repository().toString(), "--out", out(), "--tokenizer", "train:400", "--json");
        assertThat(built.code()).as(built.err()).isZero();
        JsonNode report = new JsonMapper().readTree(built.out());
        assertThat(report.path("commits").intValue()).isEqualTo(4);
        assertThat(report.path("parsed").intValue()).isPositive();
        assertThat(report.path("guessed").intValue()).isZero();
        assertThat(report.path("peak_heap_bytes").longValue()).isPositive();
        assertThat(report.path("seconds").path("history").isNumber()).isTrue();
        assertThat(report.path("dropped").isObject()).isTrue();
        assertThat(built.err()).contains("history: 4").doesNotContain("\u001b");

        CommandOutcome preview = run("dataset", "--out", out(), "--preview", "2");
        assertThat(preview.code()).as(preview.err()).isZero();
        assertThat(preview.out()).contains("--- train 0 of ").contains("⟦").doesNotContain("\u001b");

        CommandOutcome again =
                run("dataset", "--repo", repository().toString(), "--out", out(), "--tokenizer", "train:400");
        assertThat(again.out()).contains("up to date, no new commits");
        Files.writeString(repository().resolve("new.py"), "def fresh(thing):\n    return thing\n");
        git("git", "add", ".");
        git("git", "commit", "-q", "-m", "Fresh");
        CommandOutcome grown =
                run("dataset", "--repo", repository().toString(), "--out", out(), "--tokenizer", "train:400");
        assertThat(grown.out()).contains("generation 1, 1 commits");
    }

    /** The folder and the file names that the first design printed, which its config then names to train on. */
    @Test
    void aBaseDirHasTheFilesWhereOtherProgramsLook() {
        String base = folder.resolve("data_enhanced").toString();
        CommandOutcome built =
                run("dataset", "--repo", repository().toString(), "--base-dir", base, "--tokenizer", "train:400");
        assertThat(built.code()).as(built.err()).isZero();
        assertThat(Path.of(base, "dataset_enhanced", "training_data_enhanced_train.json"))
                .isNotEmptyFile();
        assertThat(Path.of(base, "dataset_enhanced", "token_sequences.json")).isNotEmptyFile();
        assertThat(run("dataset", "--repo", ".", "--base-dir", base, "--out", out())
                        .err())
                .contains("--base-dir with --repo, and --out cannot be combined");
        CommandOutcome alone =
                run("dataset", "--base-dir", repository().toString(), "--out", out(), "--tokenizer", "train:400");
        assertThat(alone.code())
                .as("without --repo it is --repo: %s", alone.err())
                .isZero();
        assertThat(Path.of(out(), "token_sequences.json")).doesNotExist();
    }

    /** Of a message that is longer than a document the beginning is kept; a subject that long leaves no room for the commit. */
    @Test
    void takesMessagesThatAreLongerThanADocument() throws IOException, InterruptedException {
        for (String message : List.of("Long\n\n" + "words of a body ".repeat(100), "a very long subject ".repeat(60))) {
            Files.writeString(
                    repository().resolve("m" + message.length() + ".py"),
                    "def long" + message.length() + "(value):\n    return value + " + message.length() + "\n");
            git("git", "add", ".");
            git("git", "commit", "-q", "-m", message);
        }
        CommandOutcome built = run(
                "dataset",
                "--repo",
                repository().toString(),
                "--out",
                out(),
                "--tokenizer",
                "train:400",
                "--set",
                "samples.context_length=128",
                "--json");
        assertThat(built.code()).as(built.err()).isZero();
        assertThat(new JsonMapper()
                        .readTree(built.out())
                        .path("dropped")
                        .path("too_long_sample")
                        .intValue())
                .isEqualTo(1);
    }

    @Test
    void saysWhatIsWrong() throws IOException {
        String repo = repository().toString();
        record Case(List<String> args, int code, String message) {}
        Path config = folder.resolve("c.yaml");
        Path bad = Files.writeString(folder.resolve("bad.yaml"), "samples:\n  context_length: many\n");
        Files.writeString(config, "seed: 1\nsamples:\n  contxt_length: 5\n");
        Path deep = Files.writeString(folder.resolve("deep.yaml"), "a: " + "[".repeat(100_000));
        Path part = Files.createDirectories(repository().resolve("src").resolve("core"));
        for (Case each : List.of(
                new Case(
                        List.of("--repo", repo, "--config", deep.toString()),
                        2,
                        "deep.yaml:1: is not YAML: expected at most 64 levels of nesting"),
                new Case(List.of("--repo", repo, "--config", "none.yaml"), 2, "none.yaml: cannot be read"),
                new Case(
                        List.of("--repo", part.toString()),
                        1,
                        "it is a part of " + repo + ": give that, with --set 'dataset.filters.include=src/core/**'"),
                new Case(List.of("--preview", "-3"), 2, "--preview: expected at least 1, got -3"),
                new Case(List.of("--repo", folder.resolve("none").toString()), 1, "none: is not a git repository"),
                new Case(List.of("--repo", folder.toString()), 1, "is not a git repository"),
                new Case(List.of("--repo", repo, "--rev", "nope"), 1, "has no commit called nope"),
                new Case(List.of("--repo", repo, "--since", "nope"), 1, "has no commit called nope"),
                new Case(
                        List.of("--repo", repo, "--config", config.toString()),
                        2,
                        "c.yaml:3: unknown key samples.contxt_length; the nearest one is"
                                + " dataset.samples.context_length"),
                new Case(
                        List.of("--repo", repo, "--config", bad.toString()),
                        2,
                        "bad.yaml:2: key samples.context_length: expected whole number 64..16777216, or auto, got"
                                + " many"),
                new Case(
                        List.of("--repo", repo, "--set", "sed=1"),
                        2,
                        "unknown key sed; the nearest one is dataset.seed"),
                new Case(List.of("--repo", repo, "--tokenizer", "none.json"), 1, "tokenizer not found"),
                new Case(List.of("--repo", repo, "--tokenizer", "train:many"), 2, "expected train:N"),
                new Case(List.of("--repo", repo, "--tokenizer", "train:100"), 2, "expected at least 275"),
                new Case(List.of("--repo", repo, "--licenses", "free"), 2, "expected one of any, permissive, got free"),
                new Case(List.of(), 2, "--repo=PATH"))) {
            List<String> args = new ArrayList<>(List.of("dataset", "--out", out()));
            args.addAll(each.args);
            CommandOutcome outcome = run(args.toArray(String[]::new));
            assertThat(outcome.code()).as(each.message).isEqualTo(each.code);
            assertThat(outcome.err()).contains(each.message);
            assertThat(Path.of(out())).doesNotExist();
        }
    }

    @Test
    void aBuildThatFailsLeavesNoFolder() {
        Path nested = folder.resolve("new").resolve("newer").resolve("newest");
        CommandOutcome outcome =
                run("dataset", "--repo", repository().toString(), "--since", "HEAD", "--out", nested.toString());
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).contains("has no commits between HEAD and HEAD");
        assertThat(folder.resolve("new")).doesNotExist();
    }

    @Test
    void saysWhatAUserWouldWonderAbout() throws IOException, InterruptedException {
        git(
                "git",
                "clone",
                "-q",
                "--depth",
                "2",
                "file://" + repository(),
                folder.resolve("shallow").toString());
        CommandOutcome outcome = run(
                "dataset", "--repo", folder.resolve("shallow").toString(), "--out", out(), "--tokenizer", "train:8192");
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(outcome.err())
                .contains("shallow is a shallow clone, so its older commits are missing; `git fetch --unshallow`")
                .containsPattern("The tokenizer has \\d+ tokens instead of 8,192: no further pair of tokens");
        CommandOutcome whole =
                run("dataset", "--repo", repository().toString(), "--out", out() + "2", "--tokenizer", "train:290");
        assertThat(whole.err()).doesNotContain("shallow clone").doesNotContain("The tokenizer has");
    }

    /** The process itself, since a signal is for a process. */
    @Test
    @EnabledOnOs({OS.LINUX, OS.MAC})
    void anInterruptedBuildLeavesNothingAndSaysSo() throws IOException, InterruptedException {
        for (int i = 4; i < 10; i++) {
            StringBuilder code = new StringBuilder();
            for (int k = 0; k < 3000; k++) {
                code.append("def f")
                        .append(k)
                        .append("_")
                        .append(i)
                        .append("(x):\n    return x * ")
                        .append(k)
                        .append("\n");
            }
            Files.writeString(repository().resolve("large" + i + ".py"), code);
            git("git", "add", ".");
            git("git", "commit", "-q", "-m", "Large " + i);
        }
        // what is started in the background ignores SIGINT
        String signal = ResumeTest.ignoresInterrupts() ? "-TERM" : "-INT";
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        "dev.starforge.cli.Main",
                        "dataset",
                        "--repo",
                        repository().toString(),
                        "--out",
                        out())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        try (BufferedReader err = process.errorReader()) {
            String line = err.readLine();
            while (line != null && !line.startsWith("chunks")) {
                line = err.readLine();
            }
            assertThat(line).as("still at work").isNotNull();
            assertThat(Path.of(out(), ".building")).exists();
            assertThat(new ProcessBuilder("kill", signal, Long.toString(process.pid()))
                            .start()
                            .waitFor())
                    .isZero();
            assertThat(err.lines().toList()).last().isEqualTo("starforge: interrupted; " + out() + " is unchanged");
        }
        assertThat(process.waitFor()).isEqualTo(signal.equals("-INT") ? ExitCode.INTERRUPTED : 143);
        assertThat(Path.of(out())).doesNotExist();
    }

    @Test
    void saysThatItMayNotRead() throws IOException {
        Assumptions.assumeFalse(System.getProperty("user.name").equals("root"), "root may read everything");
        Files.setPosixFilePermissions(repository(), PosixFilePermissions.fromString("---------"));
        CommandOutcome outcome = run("dataset", "--repo", repository().toString(), "--out", out());
        Files.setPosixFilePermissions(repository(), PosixFilePermissions.fromString("rwxr-xr-x"));
        assertThat(outcome.err()).contains("cannot be read: no permission");
    }

    @Test
    void saysThatItMayNotWrite() throws IOException {
        Path file = Files.writeString(folder.resolve("file"), "in the way");
        CommandOutcome outcome = run(
                "dataset",
                "--repo",
                repository().toString(),
                "--out",
                file.resolve("out").toString());
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).contains("starforge: " + file.resolve("out") + ": cannot be written");
        assertThat(file).hasContent("in the way");
    }

    /** The program as a process whose files may not grow beyond so many kilobytes: to it, a disk that is full. */
    private CommandOutcome runWithFullDisk(int kilobytes, String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(
                "bash",
                "-c",
                "ulimit -f " + kilobytes + "; exec \"$@\"",
                "-",
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:+UseSerialGC",
                "-XX:-UsePerfData",
                "-cp",
                System.getProperty("java.class.path"),
                "dev.starforge.cli.Main"));
        command.addAll(List.of(args));
        Path err = folder.resolve("err");
        Process process = new ProcessBuilder(command)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(err.toFile())
                .start();
        int code = process.waitFor();
        return new CommandOutcome(code, "", Files.readString(err));
    }

    private Map<String, String> contents() throws IOException {
        Map<String, String> contents = new TreeMap<>();
        try (Stream<Path> files = Files.walk(Path.of(out()))) {
            // the lock names the last writer, whatever became of it
            for (Path file : files.filter(Files::isRegularFile)
                    .filter(each -> !each.endsWith(FolderLock.FILE))
                    .toList()) {
                contents.put(
                        Path.of(out()).relativize(file).toString(),
                        HexFormat.of().formatHex(Files.readAllBytes(file)));
            }
        }
        return contents;
    }

    @Test
    void aFullDiskLosesNothing() throws IOException, InterruptedException {
        List<String> args = new ArrayList<>(
                List.of("dataset", "--repo", repository().toString(), "--out", out(), "--tokenizer", "train:400"));
        String[] all = args.toArray(String[]::new);
        // the first file that a stage writes, and one of the last
        for (int kilobytes : List.of(1, 8)) {
            CommandOutcome outcome = runWithFullDisk(kilobytes, all);
            assertThat(outcome.code()).as(outcome.err()).isEqualTo(1);
            // the parser's libraries may be the first files that do not fit
            assertThat(outcome.err())
                    .containsAnyOf("cannot be written", "was not built: the parser for python fails")
                    .contains("File too large");
            assertThat(Path.of(out())).doesNotExist();
        }
        assertThat(run(all).code()).isZero();
        Map<String, String> before = contents();
        Files.writeString(repository().resolve("more.py"), "def more(thing):\n    return thing * 7\n".repeat(300));
        git("git", "add", ".");
        git("git", "commit", "-q", "-m", "More");
        CommandOutcome grown = runWithFullDisk(8, all);
        assertThat(grown.code()).as(grown.err()).isEqualTo(1);
        assertThat(grown.err()).contains("File too large");
        assertThat(contents()).isEqualTo(before);
        assertThat(run(all).out()).contains("generation 1, 1 commits");
    }
}
