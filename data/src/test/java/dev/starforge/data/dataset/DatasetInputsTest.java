package dev.starforge.data.dataset;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocuments;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** Repositories and settings out of the common run. */
final class DatasetInputsTest {
    @TempDir
    Path folder;

    private Path repository() {
        return folder.resolve("repo.git");
    }

    private Path out() {
        return folder.resolve("out");
    }

    private String git(Path directory, String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("git"));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile());
        builder.environment().put("GIT_CONFIG_NOSYSTEM", "1");
        builder.environment().put("HOME", folder.toString());
        builder.environment().put("GIT_CEILING_DIRECTORIES", folder.toString());
        Process process = builder.redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as("git %s: %s", List.of(args), output).isZero();
        return output;
    }

    private List<String> trainingTexts() {
        Tokenizer tokenizer = Tokenizer.read(out().resolve("tokenizer.json"));
        List<String> texts = new ArrayList<>();
        try (Dataset dataset = Dataset.open(out())) {
            TokenDocuments documents = dataset.documents(Split.TRAIN);
            for (int d = 0; d < documents.count(); d++) {
                texts.add(tokenizer.decode(documents.read(d).ids(), false));
            }
        }
        return texts;
    }

    @Test
    void permissiveLeavesOutWhatNoPermissiveLicenceCovers() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            git.put("COPYING", "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n");
            git.put("lib/LICENSE.md", "Permission is hereby granted, free of charge, to any person\n");
            git.put("copyleft/Guarded.java", Histories.javaClass("Guarded", 3, 1));
            git.put("lib/deep/Open.java", Histories.javaClass("Open", 3, 2));
            git.commit("Two licences");
            git.put("copyleft/Guarded.java", Histories.javaClass("Guarded", 4, 1));
            git.put("lib/deep/Open.java", Histories.javaClass("Open", 4, 2));
            git.commit("More");
        }
        DatasetReport report = Builds.build(repository(), out(), "filters.licenses", "permissive");
        assertThat(report.licences()).isEqualTo(Map.of("", "GPL-3.0", "lib/", "MIT"));
        // the licence of the top and its two versions of a file, against a licence and two versions below lib
        assertThat(report.dropped()).containsEntry("licence", 3L);
        assertThat(report.filesKept()).isEqualTo(3);
        assertThat(report.languages()).containsEntry("java", 2L);
        assertThat(report.languages().values().stream()
                        .mapToLong(Long::longValue)
                        .sum())
                .isEqualTo(3);
        assertThat(Builds.lines(out().resolve("files.jsonl")))
                .allSatisfy(file -> assertThat(file.path("kept").booleanValue())
                        .isEqualTo(file.path("path").stringValue().startsWith("lib/")));
        assertThat(Builds.lines(out().resolve("chunks.jsonl.gz")))
                .isNotEmpty()
                .allSatisfy(
                        chunk -> assertThat(chunk.path("path").stringValue()).startsWith("lib/"));
        assertThat(trainingTexts())
                .anySatisfy(text -> assertThat(text).contains("class Open"))
                .noneSatisfy(text -> assertThat(text).contains("Guarded"));
    }

    @Test
    void aPartialCloneIsReportedAtOnceWithARemedy() throws IOException, InterruptedException {
        try (Fixture git = new Fixture(repository())) {
            for (int i = 0; i < 8; i++) {
                git.put("Kept.java", Histories.javaClass("Kept", 3, i));
                git.put("Gone.java", Histories.javaClass("Gone", 3, i));
                git.commit("Step " + i);
            }
        }
        git(repository(), "config", "uploadpack.allowFilter", "true");
        Path clone = folder.resolve("clone");
        String source = repository().toUri().toString();
        git(folder, "clone", "--no-checkout", "--filter=blob:none", source, clone.toString());
        // as a checkout fetches it
        String kept = git(repository(), "rev-parse", "main:Kept.java").strip();
        git(clone, "cat-file", "blob", kept);

        String help = "git -C " + clone + " fetch --refetch --no-filter origin";
        assertThatThrownBy(() -> Builds.build(clone, out()))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("is a partial clone")
                .hasMessageContaining(help)
                .hasMessageContaining("--skip-missing");
        assertThat(out()).doesNotExist();
        assertThatThrownBy(() -> RepositoryFacts.of(clone, false)).hasMessageContaining(help);

        DatasetReport report = Builds.build(clone, out(), "history.skip_missing", "true");
        assertThat(report.dropped()).containsEntry("missing", 15L);
        assertThat(report.filesKept()).isEqualTo(1);
        assertThat(Builds.lines(out().resolve("commits.jsonl.gz")).getLast().path("diffs"))
                .allSatisfy(
                        diff -> assertThat(diff.path("missing").booleanValue()).isTrue());

        git(clone, "fetch", "--refetch", "--no-filter", "origin");
        assertThat(Builds.build(clone, folder.resolve("whole")).dropped()).doesNotContainKey("missing");
    }

    @Test
    void aDamagedRepositoryIsNotReportedAsAPartialClone() throws IOException, InterruptedException {
        try (Fixture git = new Fixture(repository())) {
            git.put("Gone.java", Histories.javaClass("Gone", 3, 1));
            git.commit("Only");
        }
        String gone = git(repository(), "rev-parse", "main:Gone.java").strip();
        Files.delete(
                repository().resolve("objects").resolve(gone.substring(0, 2)).resolve(gone.substring(2)));
        assertThatThrownBy(() -> Builds.build(repository(), out()))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("lacks blob " + gone)
                .hasMessageContaining("git fsck");
        assertThat(out()).doesNotExist();
    }

    @Test
    void copiesAreThoseOfGit() throws IOException, InterruptedException {
        String original = Histories.javaClass("Original", 8, 3);
        try (Fixture git = new Fixture(repository())) {
            git.put("Original.java", original);
            git.commit("Original");
            git.put("Original.java", original.replace("return", "return 2 *"));
            git.put("Copied.java", original.replace("import java.util.List;", "import java.util.Map;"));
            git.commit("Copy");
        }
        Builds.build(repository(), out(), "history.copies", "true");
        JsonNode copy = Builds.lines(out().resolve("commits.jsonl.gz"))
                .get(1)
                .path("diffs")
                .get(0);
        assertThat(copy.path("type").stringValue()).isEqualTo("C");
        assertThat(copy.path("old_path").stringValue()).isEqualTo("Original.java");
        assertThat(git(repository(), "show", "-C", "--name-status", "--format=", "main"))
                .isEqualTo("C0" + copy.path("similarity").intValue() + "\tOriginal.java\tCopied.java\n"
                        + "M\tOriginal.java\n");
        Path place = Files.createDirectory(folder.resolve("apply"));
        Files.writeString(place.resolve("Original.java"), original);
        Files.writeString(place.resolve("the.patch"), copy.path("patch").stringValue());
        git(place, "apply", "the.patch");
        assertThat(place.resolve("Original.java")).hasContent(original);
        assertThat(place.resolve("Copied.java"))
                .hasContent(original.replace("import java.util.List;", "import java.util.Map;"));

        Path without = folder.resolve("without");
        Builds.build(repository(), without);
        assertThat(Builds.lines(without.resolve("commits.jsonl.gz")).get(1).path("diffs"))
                .allSatisfy(diff -> assertThat(diff.path("type").stringValue()).isIn("A", "M"));
    }

    /** What goes is moved before what stays is copied, though both have the same text. */
    @Test
    void renamesTakePrecedenceOverCopiesAsInGit() throws IOException, InterruptedException {
        String text = Histories.javaClass("Original", 8, 3);
        try (Fixture git = new Fixture(repository())) {
            git.put("A.java", text).put("B.java", text);
            git.commit("Twice");
            git.put("A.java", text.replace("return", "return 2 *"))
                    .put("C.java", text)
                    .remove("B.java");
            git.commit("Move one");
        }
        Builds.build(repository(), out(), "history.copies", "true");
        List<String> types = new ArrayList<>();
        Builds.lines(out().resolve("commits.jsonl.gz"))
                .get(1)
                .path("diffs")
                .forEach(diff -> types.add(diff.path("type").stringValue() + " "
                        + diff.path("path").stringValue()));
        assertThat(git(repository(), "show", "-C", "--name-status", "--format=", "main"))
                .isEqualTo("M\tA.java\nR100\tB.java\tC.java\n");
        assertThat(types).containsExactly("M A.java", "R C.java");
    }

    @Test
    void dependenciesComeFirst() throws IOException {
        int files = 6;
        try (Fixture git = new Fixture(repository())) {
            for (int i = 0; i < files; i++) {
                String uses = i + 1 < files ? "    Link" + (i + 1) + " next = new Link" + (i + 1) + "();\n" : "";
                git.put(
                        "Link" + i + ".java",
                        Histories.javaClass("Link" + i, 1, i).replaceFirst("\\{\n", "{\n" + uses));
            }
            git.commit("A chain");
        }
        Builds.build(
                repository(),
                out(),
                "samples.order",
                "dependency",
                "samples.metadata",
                "1",
                "samples.fim_documents",
                "0",
                "samples.context_length",
                "8192");
        String document = trainingTexts().stream()
                .filter(text -> text.startsWith("<repo_name>repo<file_sep>"))
                .findFirst()
                .orElseThrow();
        for (int i = 0; i + 1 < files; i++) {
            assertThat(document.indexOf("<file_sep>Link" + (i + 1) + ".java"))
                    .isBetween(0, document.indexOf("<file_sep>Link" + i + ".java") - 1);
        }
    }

    @Test
    void aShallowRepositoryEndsWhereItsHistoryDoes() throws IOException, InterruptedException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 8);
        }
        Path shallow = folder.resolve("shallow");
        git(folder, "clone", "-q", "--depth", "3", "file://" + repository(), shallow.toString());
        assertThat(shallow.resolve(".git/shallow")).exists();
        DatasetReport report = Builds.build(shallow, out());
        assertThat(report.commits()).isEqualTo(3);
        List<JsonNode> commits = Builds.lines(out().resolve("commits.jsonl.gz"));
        // the first commit there is brings every file of its tree, as git shows it
        assertThat(commits.getFirst().path("diffs"))
                .hasSize(6)
                .allSatisfy(diff -> assertThat(diff.path("type").stringValue()).isEqualTo("A"));
        HistoryCheck.Result result = HistoryCheck.check(shallow, out().resolve("commits.jsonl.gz"), 10, 1);
        assertThat(result.differences()).isEmpty();
        assertThat(result.wrong()).isEmpty();
    }

    @Test
    void bareOrNotTheDatasetIsTheSame() throws IOException, InterruptedException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 5);
        }
        Path clone = folder.resolve("clone");
        git(folder, "clone", "-q", repository().toString(), clone.toString());
        Path linked = folder.resolve("linked");
        git(clone, "worktree", "add", "-q", linked.toString(), "HEAD");
        Builds.build(repository(), out());
        for (Path other : List.of(clone, linked)) {
            Path built = folder.resolve("of-" + other.getFileName());
            Builds.build(other, built);
            for (String name : List.of("chunks.jsonl.gz", "files.jsonl", "train.shard", "test.shard")) {
                assertThat(built.resolve(name)).hasSameBinaryContentAs(out().resolve(name));
            }
        }
    }

    @Test
    void secretsInPathsAreRedactedEverywhere() throws IOException, InterruptedException {
        String secret = "users/" + Histories.MAIL + "/" + Histories.AWS_KEY;
        try (Fixture git = new Fixture(repository())) {
            git.put(secret + "/Main.java", Histories.javaClass("Main", 3, 1));
            git.put(secret + "/LICENSE", "Permission is hereby granted, free of charge, to any person\n");
            git.commit("Somebody's folder");
            git.put(secret + "/Main.java", Histories.javaClass("Main", 4, 1));
            git.put("Other.java", Histories.javaClass("Other", 2, 4).replace("return", "return new Main() +"));
            git.commit("Change");
            git.move(secret + "/Main.java", secret + "/Moved.java");
            git.commit("Move");
        }
        Builds.build(repository(), out(), "samples.metadata", "1", "export", "both");
        for (String name :
                List.of("commits.jsonl.gz", "chunks.jsonl.gz", "files.jsonl", "manifest.json", "report.html")) {
            assertThat(Builds.text(out().resolve(name)))
                    .as(name)
                    .doesNotContain("secret-domain")
                    .doesNotContain(Histories.AWS_KEY);
        }
        assertThat(trainingTexts())
                .anySatisfy(text -> assertThat(text).contains("users/<EMAIL>/<KEY>/Main.java"))
                .noneSatisfy(text -> assertThat(text).contains("secret-domain"))
                .noneSatisfy(text -> assertThat(text).contains(Histories.AWS_KEY));
        // patches still apply, to the paths as they are shown
        HistoryCheck.Result result = HistoryCheck.check(repository(), out().resolve("commits.jsonl.gz"), 10, 1);
        assertThat(result.patches()).isEqualTo(5);
        assertThat(result.wrong()).isEmpty();
    }

    @Test
    void tsxHasAGrammar() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            git.put("Panel.tsx", """
                import React from "react";

                type Props = { label: string };

                export const Panel: React.FC<Props> = ({ label }) => (
                  <section>
                    <h1 style={{ color: "red" }}>{label}</h1>
                  </section>
                );

                export function Button({ label }: Props) {
                  return <b>{label as string}</b>;
                }
                """);
            git.commit("A panel");
        }
        DatasetReport report = Builds.build(repository(), out());
        assertThat(report.parsed()).isEqualTo(1);
        assertThat(Builds.lines(out().resolve("chunks.jsonl.gz")).stream()
                        .map(chunk -> chunk.path("symbol").stringValue()))
                .contains("Panel", "Button", "Props");
    }

    @Test
    void aTokenizerWithoutTheNeededTokensIsRefusedAtOnce() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 3);
        }
        Path file = folder.resolve("other.json");
        BpeTrainer.train(
                        List.of("some text to learn from").iterator(),
                        new BpeTrainer.Settings(300, List.of("<nothing>"), BpeTrainer.Splitting.STARCODER2, 2))
                .write(file);
        TokenizerChoice choice = new TokenizerChoice.ExistingTokenizer(file, Tokenizer.read(file));
        List<String> stages = new ArrayList<>();
        BuildProgress progress = new BuildProgress() {
            @Override
            public void begin(String stage, long total) {
                stages.add(stage);
            }

            @Override
            public void advance() {}

            @Override
            public void message(String text) {}
        };
        assertThatThrownBy(() -> new DatasetBuilder(
                                Builds.config(repository(), out()),
                                choice,
                                Builds.parsers(out()),
                                progress,
                                System::nanoTime)
                        .build())
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("other.json: has no token that ends a text");
        assertThat(stages).isEmpty();
        assertThat(out()).doesNotExist();
    }
}
