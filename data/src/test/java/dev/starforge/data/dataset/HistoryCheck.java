package dev.starforge.data.dataset;

import dev.starforge.data.dataset.io.CompressedLines;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * Compares a {@code commits.jsonl.gz} with git: all numbers of added and removed lines, and for random files whether
 * {@code git apply} of the patch gives the new blob.
 */
public final class HistoryCheck {
    private static final JsonMapper JSON = new JsonMapper();

    /**
     * The result of the comparison.
     *
     * @param differences the files whose numbers differ, as text
     * @param wrong the patches that do not apply or give something else, as text
     */
    public record Result(int commits, int files, List<String> differences, int patches, List<String> wrong) {}

    private final Path repository;
    private final Random random;
    private final List<String> differences = new ArrayList<>();
    private final List<String> wrong = new ArrayList<>();

    private HistoryCheck(Path repository, long seed) {
        this.repository = repository;
        random = new Random(seed);
    }

    /** Compares all numbers and applies {@code patches} random patches. */
    public static Result check(Path repository, Path commits, int patches, long seed)
            throws IOException, InterruptedException {
        return new HistoryCheck(repository, seed).check(commits, patches);
    }

    private Result check(Path file, int patches) throws IOException, InterruptedException {
        Map<String, List<String>> expected = numbers();
        int commits = 0;
        int files = 0;
        List<JsonNode> drawn = new ArrayList<>();
        try (BufferedReader lines = CompressedLines.open(file)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode commit = JSON.readTree(line);
                String hash = commit.path("hash").stringValue();
                List<String> actual = new ArrayList<>();
                for (JsonNode diff : commit.path("diffs")) {
                    actual.add(
                            diff.path("is_binary").booleanValue()
                                    ? "-\t-"
                                    : diff.path("additions").intValue() + "\t"
                                            + diff.path("deletions").intValue());
                    draw(drawn, diff, patches, files++);
                }
                List<String> git = expected.getOrDefault(hash, List.of());
                if (!actual.equals(git)) {
                    differences.add(hash + ": " + actual + ", git has " + git);
                }
                commits++;
            }
        }
        if (commits != expected.size()) {
            differences.add(commits + " commits, git has " + expected.size());
        }
        for (JsonNode diff : drawn) {
            apply(diff);
        }
        return new Result(commits, files, List.copyOf(differences), drawn.size(), List.copyOf(wrong));
    }

    /** Each file with the same chance, without knowing how many there are. */
    private void draw(List<JsonNode> drawn, JsonNode diff, int wanted, int seen) {
        boolean applies = !diff.path("is_binary").booleanValue()
                && diff.path("redactions").asInt(0) == 0
                && isFile(diff.path("old_mode").stringValue())
                && isFile(diff.path("new_mode").stringValue());
        if (applies && drawn.size() < wanted) {
            drawn.add(diff);
        } else if (applies) {
            int place = random.nextInt(seen + 1);
            if (place < wanted) {
                drawn.set(place, diff);
            }
        }
    }

    private static boolean isFile(String mode) {
        return mode.equals("0") || mode.startsWith("100");
    }

    /** Added and removed lines of every file of every commit, as git counts them. */
    private Map<String, List<String>> numbers() throws IOException, InterruptedException {
        Process git = git(
                repository,
                "log",
                "-M",
                "--diff-merges=first-parent",
                "--histogram",
                "--no-indent-heuristic",
                "--numstat",
                "--no-abbrev",
                "--format=commit %H");
        Map<String, List<String>> numbers = new HashMap<>();
        List<String> open = new ArrayList<>();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(git.getInputStream(), StandardCharsets.ISO_8859_1))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("commit ")) {
                    open = new ArrayList<>();
                    numbers.put(line.substring("commit ".length()), open);
                } else if (!line.isEmpty()) {
                    open.add(line.substring(0, line.indexOf('\t', line.indexOf('\t') + 1)));
                }
            }
        }
        if (git.waitFor() != 0) {
            throw new IOException("git log failed");
        }
        return numbers;
    }

    private void apply(JsonNode diff) throws IOException, InterruptedException {
        Path place = Files.createTempDirectory("apply");
        try {
            String path = diff.path("path").stringValue();
            Path before = place.resolve(diff.path("old_path").asString(path));
            if (!diff.path("old_mode").stringValue().equals("0")) {
                Files.createDirectories(before.getParent());
                Files.write(before, blob(diff.path("old_blob").stringValue()));
                boolean executable = diff.path("old_mode").stringValue().equals("100755");
                if (executable && !before.toFile().setExecutable(true)) {
                    throw new IOException(before + " cannot be made executable");
                }
            }
            Charset charset = diff.path("patch_encoding").asString("").equals("latin1")
                    ? StandardCharsets.ISO_8859_1
                    : StandardCharsets.UTF_8;
            Path patch = Files.write(
                    place.resolve("the.patch"), diff.path("patch").stringValue().getBytes(charset));
            boolean applied = git(place, "apply", "--whitespace=nowarn", "--allow-empty", patch.toString())
                            .waitFor()
                    == 0;
            Path after = place.resolve(path);
            boolean same = diff.path("new_mode").stringValue().equals("0")
                    ? Files.notExists(after)
                    : Files.exists(after)
                            && Arrays.equals(
                                    Files.readAllBytes(after),
                                    blob(diff.path("new_blob").stringValue()));
            if (!applied || !same) {
                wrong.add(path + ": " + diff.path("old_blob") + " to " + diff.path("new_blob"));
            }
        } finally {
            try (Stream<Path> files = Files.walk(place)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    private byte[] blob(String id) throws IOException, InterruptedException {
        Process git = git(repository, "cat-file", "blob", id);
        try (InputStream content = new BufferedInputStream(git.getInputStream())) {
            byte[] bytes = content.readAllBytes();
            if (git.waitFor() != 0) {
                throw new IOException("git has no blob " + id);
            }
            return bytes;
        }
    }

    private Process git(Path folder, String... args) throws IOException {
        List<String> command = new ArrayList<>(List.of("git"));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        builder.environment().put("HOME", repository.toString());
        builder.environment().put("GIT_CEILING_DIRECTORIES", folder.toString());
        return builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }
}
