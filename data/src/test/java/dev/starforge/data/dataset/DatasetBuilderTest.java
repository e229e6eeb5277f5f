package dev.starforge.data.dataset;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.JsonDocuments;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.data.TokenShard;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.SamplePreview;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.text.FileException;
import dev.starforge.text.file.FolderLock;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The dataset as a whole: repeatable, split by time, without leaks, growing without moving. */
final class DatasetBuilderTest {
    @TempDir
    Path folder;

    private Path repository() {
        return folder.resolve("repo.git");
    }

    private static Map<String, String> hashes(Path out) throws IOException {
        Map<String, String> hashes = new TreeMap<>();
        try (Stream<Path> files = Files.walk(out)) {
            files.filter(Files::isRegularFile)
                    .forEach(file -> hashes.put(out.relativize(file).toString(), Hashes.sha256(file)));
        }
        return hashes;
    }

    private static List<String> ids(Path out, Split split) {
        List<String> ids = new ArrayList<>();
        try (Dataset dataset = Dataset.open(out)) {
            TokenDocuments documents = dataset.documents(split);
            for (int d = 0; d < documents.count(); d++) {
                ids.add(documents.read(d).id());
            }
        }
        return ids;
    }

    @Test
    void theSameInputGivesTheSameBytesWithAnyNumberOfThreads() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
        }
        Builds.build(repository(), folder.resolve("one"), "threads", "1", "samples.span", "node", "export", "both");
        Builds.build(repository(), folder.resolve("two"), "threads", "5", "samples.span", "node", "export", "both");
        assertThat(hashes(folder.resolve("one"))).hasSizeGreaterThan(10).isEqualTo(hashes(folder.resolve("two")));
        Builds.build(repository(), folder.resolve("three"), "seed", "43");
        assertThat(hashes(folder.resolve("three")).get("train.shard"))
                .isNotEqualTo(hashes(folder.resolve("one")).get("train.shard"));
    }

    @Test
    void aFileIsNoDataset() throws IOException {
        Path file = Files.writeString(folder.resolve("texts.jsonl"), "{}");
        assertThatThrownBy(() -> Dataset.open(file))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("texts.jsonl")
                .hasMessageContaining("data.train");
    }

    @Test
    void splitsAreByTimeAndDocumentsFit() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
        }
        Path out = folder.resolve("out");
        DatasetReport report = Builds.build(repository(), out, "samples.context_length", "512");
        assertThat(report.splits().get(Split.TRAIN).commits()).isEqualTo(17);
        assertThat(report.splits().get(Split.VALIDATION).commits()).isEqualTo(2);
        assertThat(report.splits().get(Split.TEST).commits()).isEqualTo(1);
        Set<String> ids = new HashSet<>();
        try (Dataset dataset = Dataset.open(out)) {
            long newest = 0;
            for (Split split : Split.values()) {
                long oldest = Long.MAX_VALUE;
                long last = 0;
                TokenDocuments documents = dataset.documents(split);
                assertThat(documents.count()).isPositive();
                for (int d = 0; d < documents.count(); d++) {
                    TokenDocument document = documents.read(d);
                    assertThat(document.ids().length).isBetween(1, 512);
                    assertThat(ids.add(document.id())).as(document.id()).isTrue();
                    oldest = Math.min(oldest, dataset.origin(split, d).time());
                    last = Math.max(last, dataset.origin(split, d).time());
                }
                assertThat(oldest).isGreaterThan(newest);
                newest = last;
            }
        }
        JsonNode manifest = new JsonMapper().readTree(out.resolve("manifest.json"));
        Set<String> named = new HashSet<>();
        manifest.path("blobs").forEach(list -> list.forEach(id -> named.add(id.stringValue())));
        assertThat(named).isEqualTo(ids);
    }

    @Test
    void fimGapsAreOneToEightWholeLines() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
        }
        Path out = folder.resolve("out");
        String[] settings = {
            "samples.span",
            "few_lines",
            "samples.fim_documents",
            "1",
            "samples.fim_files",
            "1",
            "samples.chunks",
            "false"
        };
        Builds.build(repository(), out, settings);
        Set<Long> lengths = new HashSet<>();
        Tokenizer tokenizer = Tokenizer.read(out.resolve("tokenizer.json"));
        try (Dataset dataset = Dataset.open(out)) {
            TokenDocuments documents = dataset.documents(Split.TRAIN);
            for (int d = 0; d < documents.count(); d++) {
                String text = tokenizer.decode(documents.read(d).ids(), false);
                Matcher gap = Pattern.compile(
                                "(?s)<fim_prefix>(.*?)<fim_suffix>(.*?)<fim_middle>(.*?)(?=<file_sep>|<.endoftext.>)")
                        .matcher(text);
                while (gap.find()) {
                    assertThat(gap.group(1))
                            .satisfiesAnyOf(
                                    before -> assertThat(before).isEmpty(),
                                    before -> assertThat(before).endsWith("\n"));
                    assertThat(gap.group(2).isEmpty() || gap.group(3).endsWith("\n"))
                            .isTrue();
                    lengths.add(gap.group(3).lines().count());
                }
            }
        }
        assertThat(lengths).hasSizeGreaterThan(4).allMatch(lines -> lines >= 1 && lines <= 8);
    }

    /** Middles begin at any character or at a line, and end with a line, inside it or with a later one; line breaks belong to suffixes. */
    @Test
    void fimGapsAreWhatAnEditorAsksForAtACursor() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
        }
        Path out = folder.resolve("out");
        String[] settings = {
            "samples.span", "cursor", "samples.fim_documents", "1", "samples.fim_files", "1", "samples.chunks", "true"
        };
        Builds.build(repository(), out, settings);
        int insideWord = 0;
        int atLine = 0;
        int toLineEnd = 0;
        int several = 0;
        int all = 0;
        Tokenizer tokenizer = Tokenizer.read(out.resolve("tokenizer.json"));
        try (Dataset dataset = Dataset.open(out)) {
            TokenDocuments documents = dataset.documents(Split.TRAIN);
            for (int d = 0; d < documents.count(); d++) {
                String text = tokenizer.decode(documents.read(d).ids(), false);
                Matcher gap = Pattern.compile(
                                "(?s)<fim_prefix>(.*?)<fim_suffix>(.*?)<fim_middle>(.*?)(?=<file_sep>|<.endoftext.>)")
                        .matcher(text);
                while (gap.find()) {
                    all++;
                    insideWord +=
                            gap.group(1).matches("(?s).*\\w") && gap.group(3).matches("(?s)\\w.*") ? 1 : 0;
                    atLine += gap.group(1).isEmpty() || gap.group(1).endsWith("\n") ? 1 : 0;
                    toLineEnd += gap.group(2).isEmpty() || gap.group(2).startsWith("\n") ? 1 : 0;
                    several += gap.group(3).contains("\n") ? 1 : 0;
                }
            }
        }
        assertThat(all).isGreaterThan(20);
        assertThat(insideWord).isBetween(all / 12, all * 3 / 4);
        assertThat(atLine).isBetween(all / 4, all * 9 / 10);
        assertThat(toLineEnd).isGreaterThan(all / 2);
        assertThat(several).isBetween(all / 8, all * 9 / 10);
    }

    @Test
    void documentsOfALargeCommitAreSampled() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            for (int i = 0; i < 30; i++) {
                git.put("part" + i + "/Some.java", Histories.javaClass("Part" + i, 3, i));
            }
            git.commit("Import");
            Histories.grow(git, 30, 34);
        }
        String[] all = {"samples.context_length", "512", "samples.chunks", "false", "splits.train", "4"};
        String[] some = Stream.concat(Stream.of(all), Stream.of("samples.commit_documents", "3"))
                .toArray(String[]::new);
        Builds.build(repository(), folder.resolve("all"), all);
        Builds.build(repository(), folder.resolve("some"), some);
        List<String> before = ids(folder.resolve("all"), Split.TRAIN);
        List<String> after = ids(folder.resolve("some"), Split.TRAIN);
        Map<String, Long> counts = after.stream()
                .filter(id -> id.startsWith("commit-"))
                .collect(Collectors.groupingBy(id -> id.substring(0, 23), Collectors.counting()));
        assertThat(counts).containsValue(3L);
        assertThat(counts.values()).allMatch(count -> count <= 3);
        assertThat(before).containsAll(after).hasSizeGreaterThan(after.size() + 3);
    }

    @Test
    void decodingRestoresTheText() throws IOException {
        try (Fixture git = Histories.everything(repository())) {
            assertThat(git.head()).isNotNull();
        }
        Path out = folder.resolve("out");
        Builds.build(repository(), out, "samples.fim_documents", "0", "samples.metadata", "1");
        Tokenizer tokenizer = Tokenizer.read(out.resolve("tokenizer.json"));
        List<String> texts = new ArrayList<>();
        try (Dataset dataset = Dataset.open(out)) {
            TokenDocuments documents = dataset.documents(Split.TRAIN);
            for (int d = 0; d < documents.count(); d++) {
                texts.add(tokenizer.decode(documents.read(d).ids(), false));
            }
        }
        String helper = Histories.javaClass("Helper", 3, 2).replace("return", "return 1 +");
        assertThat(texts)
                .anySatisfy(text -> assertThat(text)
                        .startsWith("<repo_name>repo<file_sep>")
                        .contains("<file_sep>src/app/tools/Helper.java\n" + helper)
                        .endsWith("<|endoftext|>"));
        assertThat(texts)
                .anySatisfy(text -> assertThat(text)
                        .startsWith("<pr>Title: Fix the bug in Main\n"
                                + "Signed-off-by: <NAME> <<EMAIL>><pr_status>opened<repo_name>repo"));
    }

    @Test
    void aCopyOfATestedFileInAnOldCommitIsDroppedAndCounted() throws IOException {
        String tested = Histories.javaClass("Tested", 6, 999);
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 3);
            git.put("src/app/Planted.java", tested.replace("final class", "class"));
            git.put(
                    "src/app/Part.java",
                    "package app;\n\nclass Part {\n    int part() {\n" + body(tested, 1)
                            + body(Histories.javaClass("Filler", 6, 5), 6) + "    }\n}\n");
            git.commit("Plant a copy, and a part of it");
            Histories.grow(git, 3, 19);
            git.put("src/app/Tested.java", tested);
            git.commit("The tested file");
        }
        Path out = folder.resolve("out");
        DatasetReport report = Builds.build(repository(), out);
        assertThat(report.dropped()).containsEntry("duplicate", 1L);
        assertThat(report.leakingDropped()).isPositive();
        assertThat(report.dropped()).containsKey("leaking_file").containsKey("leaking_chunk");
        Map<String, JsonNode> files = new HashMap<>();
        Builds.lines(out.resolve("files.jsonl"))
                .forEach(file -> files.put(file.path("path").stringValue(), file));
        assertThat(files.get("src/app/Planted.java").path("duplicate_of").stringValue())
                .startsWith("src/app/Tested.java@");
        assertThat(files.get("src/app/Tested.java").path("kept").booleanValue()).isTrue();
        Tokenizer tokenizer = Tokenizer.read(out.resolve("tokenizer.json"));
        String secretWord =
                tested.lines().skip(6).findFirst().orElseThrow().strip().split(" ")[1];
        try (Dataset dataset = Dataset.open(out)) {
            TokenDocuments train = dataset.documents(Split.TRAIN);
            for (int d = 0; d < train.count(); d++) {
                assertThat(LeakDetector.counted(train.read(d), tokenizer)).noneMatch(text -> text.contains(secretWord));
            }
        }
    }

    @Test
    void importsThatAreTestedAreNotTrainedOn() throws IOException {
        StringBuilder imports = new StringBuilder();
        for (int i = 0; i < 20; i++) {
            imports.append("import elsewhere.part")
                    .append(i)
                    .append(".Type")
                    .append(i)
                    .append(";\n");
        }
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 3);
            git.put("src/app/Old.java", imports + Histories.javaClass("Old", 3, 77));
            git.commit("Use many things");
            Histories.grow(git, 3, 19);
            git.put("src/app/New.java", imports + Histories.javaClass("New", 3, 78));
            git.commit("Use them again");
        }
        DatasetReport report = Builds.build(repository(), folder.resolve("out"));
        assertThat(report.dropped()).containsKey("leaking_file");
    }

    /** The statements of the first methods of a class. */
    private static String body(String code, int methods) {
        return code.lines()
                .filter(line -> line.startsWith("        "))
                .limit(7L * methods)
                .map(line -> line + "\n")
                .collect(Collectors.joining());
    }

    @Test
    void growsByAGenerationWithoutMovingAnything() throws IOException {
        Path out = folder.resolve("out");
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
            DatasetReport first = Builds.build(repository(), out);
            assertThat(first.generation()).isZero();
            Map<String, String> before = hashes(out);
            List<String> train = ids(out, Split.TRAIN);
            List<String> validation = ids(out, Split.VALIDATION);
            List<String> test = ids(out, Split.TEST);
            assertThat(Builds.build(repository(), out).generation()).isEqualTo(-1);
            assertThat(hashes(out)).isEqualTo(before);

            Histories.grow(git, 20, 29);
            // what was trained on in the first generation is tested in the second, in another file
            git.put(
                    "src/other/Again.java",
                    Histories.javaClass("Class3", 5, 103).replace("final class", "class"));
            git.commit("Write the same again");
            DatasetReport second = Builds.build(repository(), out);
            assertThat(second.generation()).isEqualTo(1);
            assertThat(second.commits()).isEqualTo(10);
            for (Split split : Split.values()) {
                assertThat(second.splits().get(split).documents()).isPositive();
            }
            assertThat(second.tombstones()).isPositive();
            Map<String, String> after = hashes(out);
            before.forEach((name, hash) -> {
                if (!name.equals("manifest.json") && !name.equals("report.html")) {
                    assertThat(after).containsEntry(name, hash);
                }
            });
            JsonNode manifest = new JsonMapper().readTree(out.resolve("manifest.json"));
            List<String> tombstones = new ArrayList<>();
            manifest.path("generations").get(1).path("tombstones").forEach(id -> tombstones.add(id.stringValue()));
            assertThat(tombstones).hasSize(second.tombstones());
            List<String> expected = new ArrayList<>(train);
            expected.removeAll(tombstones);
            assertThat(ids(out, Split.TRAIN))
                    .startsWith(expected.toArray(String[]::new))
                    .doesNotContainAnyElementsOf(tombstones);
            assertThat(ids(out, Split.VALIDATION)).startsWith(validation.toArray(String[]::new));
            assertThat(ids(out, Split.TEST)).startsWith(test.toArray(String[]::new));
        }
        assertThatThrownBy(() -> Builds.build(repository(), out, "samples.context_length", "100"))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("was built with samples.context_length = 2048, not 100");
    }

    @Test
    void aLicenceInANewTestedFileIsNoLeakOfTheOldOnes() throws IOException {
        Path out = folder.resolve("out");
        StringBuilder licence = new StringBuilder("/*\n");
        for (int i = 0; i < 60; i++) {
            licence.append(" * word").append(i).append(i % 8 == 7 ? "\n" : " and");
        }
        licence.append(" */\n");
        try (Fixture git = new Fixture(repository())) {
            for (int i = 0; i < 23; i++) {
                git.put("src/Class" + i + ".java", licence + Histories.javaClass("Class" + i, 5, 100 + i));
                git.commit("Add class " + i);
                if (i == 19) {
                    assertThat(Builds.build(repository(), out).generation()).isZero();
                }
            }
        }
        DatasetReport second = Builds.build(repository(), out);
        assertThat(second.generation()).isEqualTo(1);
        assertThat(second.splits().get(Split.TEST).documents()
                        + second.splits().get(Split.VALIDATION).documents())
                .isPositive();
        assertThat(second.tombstones()).isZero();
    }

    /** What the build checks before it ends, with the answer it must not have. */
    @Test
    void theLeakageCheckFindsContentInBothSplits() throws IOException {
        Path out = folder.resolve("out");
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
        }
        Builds.build(repository(), out);
        Tokenizer tokenizer = Tokenizer.read(out.resolve("tokenizer.json"));
        try (TokenShard train = TokenShard.open(out.resolve(Split.TRAIN.shard()));
                TokenShard test = TokenShard.open(out.resolve(Split.TEST.shard()))) {
            LeakDetector tested = new LeakDetector(30, Integer.MAX_VALUE);
            tested.addHeldOut(test, tokenizer);
            assertThat(tested.leakingDocuments(train, tokenizer, 2, () -> {})).isEmpty();
            tested.addHeldOut(train, tokenizer);
            assertThat(tested.leakingDocuments(train, tokenizer, 2, () -> {})).isNotEmpty();
        }
    }

    @Test
    void theReportShowsWhatIsInTheDataset() throws IOException {
        Path out = folder.resolve("out");
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
            git.put("bad.py", new byte[] {'#', (byte) 0xFF, '\n'});
            git.commit("Add what is dropped");
        }
        DatasetReport report = Builds.build(repository(), out);
        String page = Files.readString(out.resolve("report.html"));
        JsonNode shown = Jackson.JSON.readTree(page.replaceFirst("(?s).*id=\"data\">(.*?)</script>.*", "$1"));
        JsonNode generation = shown.path("generations").path(0);
        assertThat(generation.path("languages").has("java")).isTrue();
        assertThat(generation.path("dropped").propertyNames())
                .containsExactlyInAnyOrderElementsOf(report.dropped().keySet());
        assertThat(shown.path("samples").path("train").size()).isPositive();
        assertThat(shown.path("timeline").path("buckets").size()).isPositive();
        Files.delete(out.resolve("report.html"));
        assertThat(Builds.build(repository(), out).generation()).isEqualTo(-1);
        assertThat(out.resolve("report.html")).hasContent(page);
    }

    @Test
    void laterGenerationsDoNotRepeatTrainingDocuments() throws IOException {
        Path out = folder.resolve("out");
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 20);
            Builds.build(repository(), out);
            // the same text in another place, exactly and nearly, in what will be training commits
            git.put(
                    "src/other/Again.java",
                    Histories.javaClass("Class3", 5, 103).replace("package app", "package other"));
            git.put(
                    "src/other/Nearly.java",
                    Histories.javaClass("Class5", 5, 105).replaceAll("return r\\w+", "return 1"));
            git.commit("Write the same again");
            Histories.grow(git, 20, 32);
        }
        DatasetReport second = Builds.build(repository(), out);
        assertThat(second.tombstones()).isZero();
        List<JsonNode> repeated = Builds.lines(out.resolve("generation-1/chunks.jsonl.gz")).stream()
                .filter(chunk -> chunk.path("dropped").asString("").equals("repeated"))
                .toList();
        assertThat(second.dropped()).containsEntry("repeated_chunk", (long) repeated.size());
        // all methods of both, and what classes begin with
        assertThat(repeated.stream()
                        .filter(chunk -> chunk.path("category").stringValue().equals("new_function"))
                        .map(chunk -> chunk.path("path").stringValue()))
                .hasSize(10)
                .allSatisfy(path -> assertThat(path).startsWith("src/other/"));
        assertThat(repeated).allSatisfy(chunk -> {
            assertThat(Builds.text(out.resolve("chunks.jsonl.gz")))
                    .contains("\"id\":\"" + chunk.path("duplicate_of").stringValue());
        });
        List<String> trained = ids(out, Split.TRAIN);
        repeated.forEach(chunk ->
                assertThat(trained).doesNotContain("chunk-" + chunk.path("id").stringValue()));
    }

    @Test
    void otherSchemasHaveTheSameContent() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 8);
        }
        Path out = folder.resolve("out");
        Builds.build(repository(), out, "export", "both");
        try (Dataset dataset = Dataset.open(out)) {
            TokenDocuments train = dataset.documents(Split.TRAIN);
            TokenDocuments sequences =
                    JsonDocuments.tokenSequences(out.resolve("token_sequences.json"), dataset.vocabularySize());
            assertThat(sequences.count()).isEqualTo(train.count());
            for (int d = 0; d < train.count(); d++) {
                assertThat(sequences.read(d).ids()).isEqualTo(train.read(d).ids());
                assertThat(sequences.read(d).counted()).isEqualTo(train.read(d).counted());
            }
            TokenDocuments enhanced =
                    JsonDocuments.enhanced(out.resolve("training_data_enhanced_test.json"), dataset.vocabularySize());
            TokenDocuments test = dataset.documents(Split.TEST);
            assertThat(enhanced.count()).isEqualTo(test.count());
            for (int d = 0; d < test.count(); d++) {
                assertThat(enhanced.read(d).ids()).isEqualTo(test.read(d).ids());
                assertThat(enhanced.read(d).counted()).isEqualTo(test.read(d).counted());
            }
        }
    }

    @Test
    void deletionsAreNotCopiesOfEachOther() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 6);
            for (String name : List.of("One", "Two", "Three")) {
                git.put(name + ".java", Histories.javaClass(name, 4, name.hashCode()));
            }
            git.commit("Add three");
            for (String name : List.of("One", "Two", "Three")) {
                String code = Histories.javaClass(name, 4, name.hashCode());
                int second = code.indexOf("    int " + name.toLowerCase(Locale.ROOT) + "1(");
                int third = code.indexOf("    int " + name.toLowerCase(Locale.ROOT) + "2(");
                git.put(name + ".java", code.substring(0, second) + code.substring(third));
                git.commit("Remove a method of " + name);
            }
        }
        Path out = folder.resolve("out");
        Builds.build(repository(), out);
        List<JsonNode> deletions = Builds.lines(out.resolve("chunks.jsonl.gz")).stream()
                .filter(chunk -> chunk.path("patch").stringValue().lines().noneMatch(line -> line.startsWith("+")))
                .toList();
        assertThat(deletions)
                .hasSizeGreaterThanOrEqualTo(3)
                .allSatisfy(chunk -> assertThat(chunk.has("dropped")).isFalse());
    }

    @Test
    void oneRunAtATimeAndAnInterruptedOneDoesNotBlock() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 6);
        }
        Path out = Files.createDirectory(folder.resolve("out"));
        Path running = Files.createDirectory(out.resolve(".building"));
        try (FolderLock lock = FolderLock.take(out, "starforge dataset")) {
            assertThat(lock.channel().isOpen()).isTrue();
            assertThatThrownBy(() -> Builds.build(repository(), out))
                    .isInstanceOf(FileException.class)
                    .hasMessageContaining("is being written by another run (starforge dataset, process "
                            + ProcessHandle.current().pid());
        }
        assertThat(running).isDirectory();
        Builds.build(repository(), out, "export", "both");
        // as if it had been killed before the manifest moved
        Files.createDirectory(running);
        Files.move(out.resolve("manifest.json"), running.resolve("manifest.json"));
        Files.delete(out.resolve("report.html"));
        Builds.build(repository(), out);
        assertThat(out.resolve("token_sequences.json")).doesNotExist();
        assertThat(running).doesNotExist();
        ids(out, Split.TRAIN);
    }

    @Test
    void aShardOfAnotherDatasetIsRefused() throws IOException {
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 8);
        }
        Path out = folder.resolve("out");
        Path other = folder.resolve("other");
        Builds.build(repository(), out);
        Builds.build(repository(), other, "seed", "7");
        Files.copy(other.resolve("train.shard"), out.resolve("train.shard"), StandardCopyOption.REPLACE_EXISTING);
        assertThatThrownBy(() -> Dataset.open(out))
                .isInstanceOf(DatasetException.class)
                .hasMessageContaining("train.shard: does not match the manifest: expected SHA-256");
    }

    @Test
    void previewsCannotSteerATerminal() {
        assertThat(SamplePreview.harmless("a\tb\u001b[2J\r\u009b\n")).isEqualTo("a\tb\u241b[2J\u240d\ufffd\n");
    }

    @Test
    void aHostileRepositoryRunsAndWritesNothing() throws IOException {
        Path marker = folder.resolve("executed");
        Path home = Files.createDirectory(folder.resolve("home"));
        try (Fixture git = new Fixture(repository())) {
            git.put("Case.java", Histories.javaClass("Case", 2, 1));
            git.put("case.java", Histories.javaClass("Other", 2, 2));
            git.put("etc", FileMode.SYMLINK, "/etc".getBytes(StandardCharsets.UTF_8));
            git.put("bad.py", new byte[] {'#', (byte) 0xFF, (byte) 0xFE, '\n', 'x', '=', '1', '\n'});
            git.put("huge.txt", new byte[12 << 20]);
            git.put(".gitattributes", "*.java filter=evil diff=evil\n");
            git.put(".gitmodules", "[submodule \"m\"]\n\tpath = m\n\turl = ext::sh -c touch% " + marker + "\n");
            git.submodule("m", ObjectId.fromString("1234567890123456789012345678901234567890"));
            git.commit("Hostile");
            git.commitOfNobodyAbove("Up and out");
            git.put("Case.java", Histories.javaClass("Case", 3, 1));
            git.commit("Again");
        }
        String run = "touch " + marker;
        Files.writeString(
                repository().resolve("config"),
                "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = " + run + "\n\thooksPath = hooks\n"
                        + "\tpager = " + run + "\n\tsshCommand = " + run + "\n[filter \"evil\"]\n\tclean = " + run
                        + "\n\tsmudge = " + run + "\n[diff \"evil\"]\n\ttextconv = " + run + "\n[include]\n\tpath = "
                        + home + "/included\n");
        Path hooks = Files.createDirectories(repository().resolve("hooks"));
        for (String hook : List.of("post-checkout", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman")) {
            Path file = Files.writeString(hooks.resolve(hook), "#!/bin/sh\n" + run + "\n");
            assertThat(file.toFile().setExecutable(true)).isTrue();
        }
        Map<String, String> before = hashes(repository());
        Path out = folder.resolve("out");
        DatasetReport report = Builds.build(repository(), out, "history.max_blob_bytes", "1048576");
        assertThat(marker).doesNotExist();
        assertThat(hashes(repository())).isEqualTo(before);
        assertThat(home).isEmptyDirectory();
        try (Stream<Path> left = Files.list(folder)) {
            assertThat(left.map(path -> path.getFileName().toString()))
                    .containsExactlyInAnyOrder("repo.git", "home", "out");
        }
        assertThat(report.commits()).isEqualTo(3);
        assertThat(report.dropped()).containsKeys("too_large", "symlink", "submodule", "not_utf8");
        assertThat(Builds.lines(out.resolve("commits.jsonl.gz")).get(1).path("diffs"))
                .anyMatch(diff -> diff.path("path").asString("").equals("../escape.txt"));
        try (Stream<Path> made = Files.list(out)) {
            assertThat(made.map(path -> path.getFileName().toString()))
                    .containsExactlyInAnyOrder(
                            ".lock",
                            "commits.jsonl.gz",
                            "chunks.jsonl.gz",
                            "files.jsonl",
                            "manifest.json",
                            "report.html",
                            "tokenizer.json",
                            "train.shard",
                            "val.shard",
                            "test.shard");
        }
    }

    @Test
    void errorsAreReported() throws IOException {
        Path out = folder.resolve("out");
        assertThatThrownBy(() -> Builds.build(folder.resolve("missing"), out))
                .hasMessageContaining("missing: is not a git repository: there is no such folder");
        Path plain = Files.createDirectory(folder.resolve("plain"));
        assertThatThrownBy(() -> Builds.build(plain, out)).hasMessageContaining("plain: is not a git repository");
        Path empty = folder.resolve("empty.git");
        new Fixture(empty).close();
        assertThatThrownBy(() -> Builds.build(empty, out)).hasMessageContaining("is an empty repository");
        try (Fixture git = new Fixture(repository())) {
            Histories.grow(git, 0, 2);
        }
        DatasetConfig config = new DatasetConfig(repository(), out, "no-such-branch", "", Builds.settings(List.of()));
        assertThatThrownBy(() -> Builds.build(config)).hasMessageContaining("has no commit called no-such-branch");
        Path foreign = Files.createDirectory(folder.resolve("foreign"));
        Files.writeString(foreign.resolve("thesis.txt"), "mine");
        assertThatThrownBy(() -> Builds.build(repository(), foreign))
                .hasMessageContaining("is not empty and not a dataset: it has thesis.txt");
        assertThat(out).doesNotExist();
    }
}
