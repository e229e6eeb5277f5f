package dev.starforge.data.dataset;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.Split;
import dev.starforge.data.TokenShard;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** A history with everything in it, against git itself: every count, every patch, every file's fate. */
@TestInstance(Lifecycle.PER_CLASS)
final class HistoryTest {
    private Path folder;
    private Path repository;
    private Path out;
    private DatasetReport report;
    private List<JsonNode> commits;

    @BeforeAll
    void build(@TempDir Path temporary) throws IOException {
        folder = temporary;
        repository = folder.resolve("repo.git");
        out = folder.resolve("out");
        Histories.everything(repository).close();
        report = Builds.build(repository, out);
        commits = Builds.lines(out.resolve("commits.jsonl.gz"));
    }

    private byte[] git(Path directory, String... args) throws IOException {
        List<String> command = new ArrayList<>(List.of("git"));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile());
        builder.environment().put("GIT_CONFIG_NOSYSTEM", "1");
        builder.environment().put("HOME", folder.toString());
        builder.environment().put("GIT_CEILING_DIRECTORIES", folder.toString());
        Process process = builder.redirectErrorStream(true).start();
        byte[] output;
        try (InputStream in = process.getInputStream()) {
            output = in.readAllBytes();
        }
        try {
            assertThat(process.waitFor())
                    .as("git %s: %s", List.of(args), new String(output, StandardCharsets.ISO_8859_1))
                    .isZero();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
        return output;
    }

    @Test
    void commitsAreOldestFirstAndHaveTheirMetadata() {
        assertThat(commits).hasSize(12);
        List<String> seen = new ArrayList<>();
        for (JsonNode commit : commits) {
            commit.path("parents").forEach(parent -> assertThat(seen).contains(parent.stringValue()));
            seen.add(commit.path("hash").stringValue());
            assertThat(commit.path("author").stringValue()).isEqualTo("<NAME>");
            assertThat(commit.path("email").stringValue()).isEqualTo("<EMAIL>");
        }
        JsonNode second = commits.get(1);
        assertThat(second.path("subject").stringValue()).isEqualTo("Fix the bug in Main");
        assertThat(second.path("body").stringValue()).isEqualTo("Signed-off-by: <NAME> <<EMAIL>>");
        assertThat(second.path("time").stringValue()).isEqualTo("2020-09-13T14:26:40Z");
        assertThat(second.path("unix_time").longValue()).isEqualTo(1_600_007_200L);
        assertThat(commits.stream().filter(commit -> commit.path("is_merge").booleanValue()))
                .hasSize(1);
        assertThat(commits.getLast().path("branches").get(0).stringValue()).isEqualTo("main");
        JsonNode empty = commits.stream()
                .filter(commit -> commit.path("subject").stringValue().equals("Empty commit"))
                .findFirst()
                .orElseThrow();
        assertThat(empty.path("diffs")).isEmpty();
    }

    @Test
    void changeTypesAreThoseOfGit() throws IOException {
        Map<String, String> expected = new HashMap<>();
        String log = new String(
                git(
                        repository,
                        "log",
                        "-M",
                        "--name-status",
                        "-z",
                        "--diff-merges=first-parent",
                        "--format=@%H",
                        "main"),
                StandardCharsets.UTF_8);
        String commit = "";
        String[] fields = log.split("\0");
        for (int i = 0; i < fields.length; i++) {
            String field = fields[i].strip();
            if (field.startsWith("@")) {
                commit = field.substring(1, 41);
                field = field.substring(41).strip();
            }
            if (!field.isEmpty()) {
                boolean pair = field.startsWith("R") || field.startsWith("C");
                expected.put(commit + " " + fields[i + (pair ? 2 : 1)], field.substring(0, 1));
                i += pair ? 2 : 1;
            }
        }
        Map<String, String> actual = new HashMap<>();
        for (JsonNode each : commits) {
            each.path("diffs")
                    .forEach(diff -> actual.put(
                            each.path("hash").stringValue() + " "
                                    + diff.path("path").stringValue(),
                            diff.path("type").stringValue()));
        }
        assertThat(actual).isEqualTo(expected);
        assertThat(actual.values()).contains("A", "M", "D", "R", "T");
    }

    @Test
    void lineCountsAreThoseOfGit() throws IOException {
        Pattern line = Pattern.compile("(\\d+|-)\t(\\d+|-)\t.*", Pattern.DOTALL);
        int compared = 0;
        for (JsonNode commit : commits) {
            String hash = commit.path("hash").stringValue();
            boolean root = commit.path("parents").isEmpty();
            String numstat = new String(
                    root
                            ? git(
                                    repository,
                                    "diff-tree",
                                    "-r",
                                    "--root",
                                    "--no-commit-id",
                                    "-M",
                                    "--histogram",
                                    "--no-indent-heuristic",
                                    "--numstat",
                                    hash)
                            : git(
                                    repository,
                                    "diff",
                                    "-M",
                                    "--histogram",
                                    "--no-indent-heuristic",
                                    "--numstat",
                                    commit.path("parents").get(0).stringValue(),
                                    hash),
                    StandardCharsets.ISO_8859_1);
            List<String> expected = new ArrayList<>();
            for (String each : numstat.lines().toList()) {
                Matcher matcher = line.matcher(each);
                assertThat(matcher.matches()).as(each).isTrue();
                expected.add(matcher.group(1) + " " + matcher.group(2));
            }
            List<String> actual = new ArrayList<>();
            for (JsonNode diff : commit.path("diffs")) {
                actual.add(
                        diff.path("is_binary").booleanValue()
                                ? "- -"
                                : diff.path("additions").intValue() + " "
                                        + diff.path("deletions").intValue());
                compared++;
            }
            assertThat(actual).as(hash).containsExactlyElementsOf(expected);
        }
        assertThat(compared).isGreaterThan(30);
    }

    @Test
    void everyPatchGivesTheChildExactly() throws IOException {
        int applied = 0;
        int redacted = 0;
        for (JsonNode commit : commits) {
            for (JsonNode diff : commit.path("diffs")) {
                boolean submodule = diff.path("new_mode").stringValue().equals("160000")
                        || diff.path("old_mode").stringValue().equals("160000");
                if (diff.path("is_binary").booleanValue() || submodule) {
                    continue;
                }
                Path place = Files.createDirectory(folder.resolve("apply" + applied++));
                String oldPath =
                        diff.path("old_path").asString(diff.path("path").stringValue());
                Path before = place.resolve(oldPath);
                byte[] oldContent = blob(diff.path("old_blob").stringValue());
                byte[] newContent = blob(diff.path("new_blob").stringValue());
                redacted += diff.path("redactions").asInt(0) > 0 ? 1 : 0;
                if (!diff.path("old_mode").stringValue().equals("0")) {
                    Files.createDirectories(before.getParent());
                    if (diff.path("old_mode").stringValue().equals("120000")) {
                        Files.createSymbolicLink(before, Path.of(new String(oldContent, StandardCharsets.UTF_8)));
                    } else {
                        Files.write(before, oldContent);
                    }
                }
                Charset charset = diff.path("patch_encoding").asString("").equals("latin1")
                        ? StandardCharsets.ISO_8859_1
                        : StandardCharsets.UTF_8;
                byte[] patch = diff.path("patch").stringValue().getBytes(charset);
                Files.write(place.resolve("the.patch"), patch);
                git(place, "apply", "the.patch");
                Path after = place.resolve(diff.path("path").stringValue());
                if (diff.path("type").stringValue().equals("D")) {
                    assertThat(after).doesNotExist();
                } else if (diff.path("new_mode").stringValue().equals("120000")) {
                    assertThat(Files.readSymbolicLink(after).toString())
                            .isEqualTo(new String(newContent, StandardCharsets.UTF_8));
                } else {
                    assertThat(Files.readAllBytes(after)).as("%s", after).isEqualTo(newContent);
                }
            }
        }
        assertThat(applied).isGreaterThan(25);
        assertThat(redacted).isEqualTo(3);
    }

    /** The content as the dataset shows it: the blob itself, unless it holds a secret. */
    private byte[] blob(String id) throws IOException {
        return id.matches("0+") ? new byte[0] : new Redactor().redact(git(repository, "cat-file", "blob", id));
    }

    @Test
    void everyFileIsKeptOrHasAReason() throws IOException {
        Map<String, String> fate = new HashMap<>();
        for (JsonNode file : Builds.lines(out.resolve("files.jsonl"))) {
            String reason = file.path("reason").asString("");
            assertThat(file.path("kept").booleanValue()).isEqualTo(reason.isEmpty());
            fate.merge(file.path("path").stringValue(), reason, (one, other) -> one + "," + other);
        }
        assertThat(fate)
                .containsEntry("logo.png", "binary,binary")
                .containsEntry("vendor/lib/thing.js", "vendored")
                .containsEntry("gen/Made.java", "generated")
                .containsEntry("link", "symlink,")
                .containsEntry("latin.txt", "not_utf8,not_utf8")
                .containsEntry("module", "submodule,submodule")
                .containsEntry("side.py", "")
                .containsEntry("src/app/Main.java", ",");
        assertThat(List.of(fate.get("src/app/Twin.java"), fate.get("src/app/TwinCopy.java")))
                .containsExactlyInAnyOrder("", "duplicate");
        assertThat(report.dropped()).containsEntry("duplicate", 1L).containsEntry("binary", 2L);
        assertThat(report.languages().values().stream()
                        .mapToLong(Long::longValue)
                        .sum())
                .isEqualTo(report.filesKept());
    }

    @Test
    void chunksAreFunctions() throws IOException {
        List<JsonNode> chunks = Builds.lines(out.resolve("chunks.jsonl.gz"));
        assertThat(report.guessed()).isZero();
        assertThat(report.parsed()).isGreaterThan(5);
        JsonNode added = chunks.stream()
                .filter(chunk -> chunk.path("symbol").stringValue().equals("Main.main4"))
                .findFirst()
                .orElseThrow();
        assertThat(added.path("category").stringValue()).isEqualTo("new_function");
        assertThat(added.path("language").stringValue()).isEqualTo("java");
        assertThat(added.path("module").stringValue()).isEqualTo("app");
        assertThat(added.path("old_code").stringValue()).isEmpty();
        assertThat(added.path("new_code").stringValue())
                .startsWith("    int main4(int x")
                .endsWith("    }\n");
        JsonNode changed = chunks.stream()
                .filter(chunk -> chunk.path("symbol").stringValue().equals("Helper.helper1")
                        && !chunk.path("old_code").stringValue().isEmpty())
                .findFirst()
                .orElseThrow();
        assertThat(changed.path("new_code").stringValue()).contains("return 1 +");
        assertThat(changed.path("old_code").stringValue()).contains("return r").doesNotContain("return 1 +");
        assertThat(changed.path("patch").stringValue())
                .contains("\n-        return r")
                .contains("\n+        return 1 + r");
        assertThat(chunks.stream().map(chunk -> chunk.path("id").stringValue())).doesNotHaveDuplicates();
        assertThat(chunks.stream().map(chunk -> chunk.path("category").stringValue()))
                .contains("new_function", "imports", "documentation");
    }

    @Test
    void noSecretIsInAnyFile() throws IOException {
        try (Stream<Path> files = Files.walk(out)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                String text = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
                requireNoSecret(text, file.toString());
            }
        }
        // shards hold ids, in which nothing would be found
        Tokenizer tokenizer = Tokenizer.read(out.resolve("tokenizer.json"));
        StringBuilder all = new StringBuilder();
        for (Split split : Split.values()) {
            try (TokenShard shard = TokenShard.open(out.resolve(split.shard()))) {
                for (int d = 0; d < shard.count(); d++) {
                    String text = tokenizer.decode(shard.read(d).ids(), false);
                    requireNoSecret(text, split + " " + shard.id(d));
                    all.append(text);
                }
            }
        }
        assertThat(all).contains("main4", Redactor.PASSWORD);
        assertThat(report.redacted().keys()).isGreaterThanOrEqualTo(3);
        assertThat(report.redacted().passwords()).isEqualTo(2);
        assertThat(report.licences()).containsEntry("", "Apache-2.0");
    }

    private static void requireNoSecret(String text, String place) {
        for (String secret : List.of(
                Histories.AWS_KEY,
                Histories.PASSWORD,
                Histories.RANDOM_KEY,
                Histories.KEY_LINE,
                "secret-domain.dev",
                "Grace Somebody",
                "Ada Example")) {
            assertThat(text.contains(secret)).as("%s in %s", secret, place).isFalse();
        }
    }
}
