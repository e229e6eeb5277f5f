package dev.starforge.data.dataset;

import dev.starforge.data.Split;
import dev.starforge.data.TokenShardWriter;
import dev.starforge.data.dataset.chunk.ChunkTable;
import dev.starforge.data.dataset.chunk.ChunkWorker;
import dev.starforge.data.dataset.chunk.DropReasons;
import dev.starforge.data.dataset.chunk.FileTable;
import dev.starforge.data.dataset.chunk.PathIndex;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.dedup.ComparedTexts;
import dev.starforge.data.dataset.filter.FolderLicenses;
import dev.starforge.data.dataset.history.CommitTable;
import dev.starforge.data.dataset.history.HistoryWorker;
import dev.starforge.data.dataset.io.CompressedLines;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.data.dataset.io.TempFile;
import dev.starforge.data.dataset.parse.ParserPool;
import dev.starforge.data.dataset.parse.ParserStarter;
import dev.starforge.data.dataset.redact.Redactions;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.HtmlReport;
import dev.starforge.data.dataset.report.JsonExport;
import dev.starforge.data.dataset.report.Manifest;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.data.dataset.sample.SampleFormat;
import dev.starforge.data.dataset.sample.SampleTasks;
import dev.starforge.data.dataset.sample.SampleWorker;
import dev.starforge.data.dataset.sample.TrainingSnapshot;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.data.dataset.split.SplitBoundaries;
import dev.starforge.data.git.CommitReader;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.GitPath;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.eclipse.jgit.lib.ObjectId;
import org.jspecify.annotations.Nullable;

/**
 * Builds one generation of a dataset from its commits: the list of {@link #stages}, and the state they share. Texts pass
 * from stage to stage in files of the work folder, so memory holds only a few bytes per commit, path and chunk. The last
 * stage moves the finished files into the dataset.
 */
final class Pipeline implements AutoCloseable {
    private static final int PARSERS = 2;
    private static final Duration PARSER_TIMEOUT = Duration.ofSeconds(20);
    private static final long MAX_TOKENIZER_CHARACTERS = 64L << 20;

    /** Consecutive commits per task of the history stage; a finished task waits in a file for those before it. */
    private static final int MAX_HISTORY_BATCH = 2048;

    /** The same in the chunk stage, whose finished tasks keep facts in memory. */
    private static final int MAX_CHUNK_BATCH = 256;

    private final DatasetConfig config;
    private final TokenizerChoice choice;
    private final Path work;
    private final StageRunner runner;
    private final GitHistory history;
    private final ObjectId head;
    private final Manifest manifest;

    private final CommitTable commits;
    private final ComparedTexts texts;
    private final FileTable files;
    private final ChunkTable chunks;
    private final DropReasons dropped = new DropReasons();
    private final PathIndex paths = new PathIndex();
    private final FolderLicenses licenses = new FolderLicenses();
    private final ParserPool parsers;
    private final LeakDetector leaks;
    private final Map<String, List<String>> documentsByBlob = new TreeMap<>();
    private final Map<Split, DatasetReport.SplitCount> counts = new EnumMap<>(Split.class);

    private Redactions redactions = Redactions.NONE;
    private SplitBoundaries boundaries = SplitBoundaries.ALL_TRAIN;
    private TrainingSnapshot snapshot;
    private List<SampleWorker.FilesTask> fileTasks = List.of();
    private @Nullable SampleFormat format;
    private @Nullable Path tokenizerFile;
    private @Nullable DatasetReport report;
    private List<String> tombstones = List.of();

    Pipeline(
            DatasetConfig config,
            TokenizerChoice choice,
            ParserStarter starter,
            Path work,
            StageRunner runner,
            Source source) {
        this.config = config;
        this.choice = choice;
        this.work = work;
        this.runner = runner;
        history = source.history;
        head = source.head;
        manifest = source.manifest;
        commits = new CommitTable(source.commits);
        texts = new ComparedTexts(work.resolve("grams.part"), config.get(DatasetKeys.SIMILARITY));
        files = new FileTable(work, texts, dropped);
        chunks = new ChunkTable(work, commits, files, texts, dropped);
        parsers = new ParserPool(starter, PARSERS, PARSER_TIMEOUT);
        leaks = new LeakDetector(config.get(DatasetKeys.WINDOW_WORDS), config.get(DatasetKeys.BOILERPLATE_FILES));
        snapshot = TrainingSnapshot.none(history, config);
    }

    /**
     * The input of a generation.
     *
     * @param head the newest commit
     * @param commits the commits that no older generation has, parents first
     * @param manifest of the older generations, or an empty one
     */
    record Source(GitHistory history, ObjectId head, List<ObjectId> commits, Manifest manifest) {}

    /** The stages, in the order in which they run. */
    private List<BuildStage> stages() {
        return List.of(
                new BuildStage("history", commits::count, this::writeHistory),
                new BuildStage("chunks", commits::count, this::writeChunks),
                new BuildStage("duplicates", this::dropDuplicates),
                new BuildStage("snapshot", this::takeSnapshot),
                new BuildStage("leaks", () -> 3L * chunks.count(), this::dropLeaks),
                new BuildStage("tokenizer", this::prepareTokenizer),
                new BuildStage("samples", () -> fileTasks.size() + commits.count(), this::writeSamples),
                new BuildStage("leakage check", () -> Split.TRAIN.in(counts).documents(), this::checkLeakage),
                new BuildStage("manifest", this::publish));
    }

    DatasetReport run() throws IOException {
        runner.run(stages());
        return Objects.requireNonNull(report);
    }

    @Override
    public void close() {
        parsers.close();
        texts.close();
    }

    /** Writes {@code commits.jsonl.gz}, and collects commit times, paths and licenses. */
    private void writeHistory() throws IOException {
        Map<ObjectId, List<String>> names = history.names();
        try (OutputStream out = CompressedLines.create(work.resolve("commits.jsonl.gz"))) {
            ParallelMap.run(
                    ParallelMap.batches(commits.ids(), config.threads(), MAX_HISTORY_BATCH),
                    config.threads(),
                    () -> new HistoryWorker(history.reader(), names, config, () -> new TempFile(work), runner::advance),
                    batch -> {
                        batch.json().writeTo(out);
                        for (HistoryWorker.CommitFacts commit : batch.commits()) {
                            commits.addTime(commit.time());
                            redactions = redactions.plus(commit.redactions());
                            commit.paths().forEach(paths::add);
                        }
                    });
        }
        try (CommitReader reader = history.reader()) {
            for (FileChange.Side file : reader.tree(reader.commit(head))) {
                String path = GitPath.text(file.path());
                if (file.isFile() && FolderLicenses.isLicense(path)) {
                    Optional<byte[]> content = reader.blobs().read(file);
                    content.ifPresent(bytes -> licenses.add(path, new String(bytes, StandardCharsets.UTF_8)));
                }
            }
        }
    }

    /** Filters files and cuts changes into chunks; {@code files.part} and {@code chunks.part} hold them until decided. */
    private void writeChunks() throws IOException {
        manifest.eachTrainingChunk(chunk -> chunks.addOlder(chunk, config.get(DatasetKeys.MIN_WORDS)));
        try (OutputStream chunkLines = chunks.openLines();
                OutputStream fileLines = files.openLines()) {
            ParallelMap.run(
                    ParallelMap.batches(commits.ids(), config.threads(), MAX_CHUNK_BATCH),
                    config.threads(),
                    () -> new ChunkWorker(
                            history.reader(),
                            config,
                            licenses,
                            parsers,
                            paths,
                            () -> new TempFile(work),
                            runner::advance),
                    batch -> {
                        batch.chunkLines().writeTo(chunkLines);
                        batch.fileLines().writeTo(fileLines);
                        batch.commits().forEach(commit -> chunks.add(commit, files.add(commit)));
                    });
        }
    }

    /** Finds duplicates, and then the split boundaries by the commits that still have chunks. */
    private void dropDuplicates() {
        texts.findDuplicates();
        boundaries = SplitBoundaries.of(commits.times(), chunks.commitsWithChunks(), config);
        chunks.dropRepeated(boundaries);
    }

    private void takeSnapshot() throws IOException {
        boolean later = manifest.generations() > 0;
        snapshot = TrainingSnapshot.of(history, config, commits, boundaries, licenses, work, later);
        dropped.add(DropReasons.SIMILAR_FILE, snapshot.similar());
    }

    /** Drops training chunks and files that share text with held-out ones; writes {@code chunks.jsonl.gz}, {@code files.jsonl}. */
    private void dropLeaks() throws IOException {
        LeakDetector older = manifest.heldOut(choice.existing(config.out()));
        chunks.each(boundaries, false, (_, chunk) -> chunk.added().forEach(leaks::addHeldOut), runner::advance);
        chunks.each(
                boundaries,
                true,
                (_, chunk) -> chunk.added().forEach(text -> leaks.recordTraining(chunk.path(), text)),
                runner::advance);
        snapshot.each(leaks::recordTraining);
        if (manifest.generations() > 0) {
            // training files of older generations count as well when boilerplate is recognized
            ObjectId last = history.resolve(manifest.heads().getLast());
            TrainingSnapshot.each(history, config, last, leaks::recordTraining);
        }
        leaks.separateBoilerplate();
        dropped.add(DropReasons.LEAKING_FILE, snapshot.remove(text -> leaks.leaks(text) || older.leaks(text)));
        chunks.each(
                boundaries,
                true,
                (number, chunk) -> {
                    if (chunk.added().stream().anyMatch(text -> leaks.leaks(text) || older.leaks(text))) {
                        chunks.markLeaking(number);
                    }
                },
                runner::advance);
        chunks.finish(boundaries);
        files.finish();
        fileTasks = snapshot.tasks();
    }

    private void prepareTokenizer() {
        Path file = tokenizerFile();
        tokenizerFile = file;
        Tokenizer tokenizer =
                choice instanceof TokenizerChoice.ExistingTokenizer given ? given.tokenizer() : Tokenizer.read(file);
        format = new SampleFormat(tokenizer, file, config.get(DatasetKeys.FAMILY));
        if (choice instanceof TokenizerChoice.TokenizerToTrain wanted
                && file.startsWith(work)
                && tokenizer.size() < wanted.vocabularySize()) {
            runner.message(String.format(
                    Locale.ROOT,
                    "The tokenizer has %,d tokens instead of %,d: no further pair of tokens occurs twice in the"
                            + " training files.",
                    tokenizer.size(),
                    wanted.vocabularySize()));
        }
        if (!format.supportsFim()) {
            runner.message("The vocabulary has no fill-in-the-middle tokens: samples are plain text.");
        }
    }

    /** The file of the given tokenizer, of the one that older generations use, or of a new one trained on the snapshot. */
    private Path tokenizerFile() {
        if (choice instanceof TokenizerChoice.ExistingTokenizer given) {
            return given.file();
        }
        Path existing = config.out().resolve(Manifest.TOKENIZER);
        if (Files.exists(existing)) {
            return existing;
        }
        int size = ((TokenizerChoice.TokenizerToTrain) choice).vocabularySize();
        Path file = work.resolve(Manifest.TOKENIZER);
        BpeTrainer.train(
                        snapshot.texts(MAX_TOKENIZER_CHARACTERS).iterator(),
                        new BpeTrainer.Settings(size, SampleFormat.specialTokens(), BpeTrainer.Splitting.STARCODER2, 2))
                .beginningWith(SampleFormat.specialTokens().getFirst())
                .write(file);
        return file;
    }

    private SampleFormat format() {
        return Objects.requireNonNull(format);
    }

    /** Writes the shards of the three splits. */
    private void writeSamples() throws IOException {
        Map<Split, TokenShardWriter> writers = new EnumMap<>(Split.class);
        Map<Split, Set<String>> commitsOf = new EnumMap<>(Split.class);
        try (ChunkTable.KeptChunks kept = chunks.openKept()) {
            for (Split split : Split.values()) {
                int vocabulary = format().tokenizer().size();
                writers.put(split, new TokenShardWriter(work.resolve(split.shard()), vocabulary));
                commitsOf.put(split, new HashSet<>());
            }
            ParallelMap.run(
                    () -> new SampleTasks(fileTasks, commits, kept, boundaries),
                    config.threads(),
                    () -> new SampleWorker(history.reader(), config, format(), parsers, leaks, runner::advance),
                    batch -> {
                        dropped.add(DropReasons.TOO_LONG_SAMPLE, batch.tooLong());
                        dropped.add(DropReasons.NO_LOSS_SAMPLE, batch.withoutLoss());
                        for (SampleWorker.TokenizedSample sample : batch.samples()) {
                            sample.split().in(writers).add(sample.document(), sample.origin());
                            sample.split().in(commitsOf).add(sample.origin().commit());
                            sample.blobs()
                                    .forEach(blob -> documentsByBlob
                                            .computeIfAbsent(blob, key -> new ArrayList<>())
                                            .add(sample.document().id()));
                        }
                    });
            writers.forEach((split, writer) -> {
                writer.finish();
                counts.put(
                        split,
                        new DatasetReport.SplitCount(
                                writer.count(),
                                writer.tokens(),
                                writer.lossTokens(),
                                split.in(commitsOf).size()));
            });
        } finally {
            writers.values().forEach(TokenShardWriter::close);
        }
    }

    /** Checks the written shards once more, and finds the documents of older generations that leak now. */
    private void checkLeakage() throws IOException {
        LeakageCheck check = new LeakageCheck(work, config, manifest, format().tokenizer(), runner::advance);
        Set<String> leaking = check.drop();
        if (!leaking.isEmpty()) {
            dropped.add(DropReasons.LEAKING_DOCUMENT, leaking.size());
            documentsByBlob.values().forEach(ids -> ids.removeAll(leaking));
            documentsByBlob.values().removeIf(List::isEmpty);
            counts.put(Split.TRAIN, check.trained());
        }
        tombstones = check.tombstones();
    }

    /** Writes exports and the manifest, and moves everything into the dataset. */
    private void publish() throws IOException {
        Tokenizer tokenizer = format().tokenizer();
        if (config.get(DatasetKeys.EXPORT) != DatasetConfig.ExportFormat.NONE) {
            new JsonExport(work, tokenizer).write(config.get(DatasetKeys.EXPORT));
        }
        report = summary();
        manifest.publish(
                work,
                new Manifest.Generation(head.name(), report, boundaries, tombstones, documentsByBlob),
                Objects.requireNonNull(tokenizerFile),
                tokenizer);
        HtmlReport.write(config.out(), tokenizer);
    }

    private DatasetReport summary() {
        long leaking = dropped.count(DropReasons.LEAKING_FILE)
                + dropped.count(DropReasons.LEAKING_DOCUMENT)
                + chunks.leaking();
        return new DatasetReport(
                manifest.generations(),
                commits.count(),
                files.count(),
                files.kept(),
                chunks.count(),
                chunks.kept(),
                dropped.counts(),
                files.languages(),
                counts,
                tombstones.size(),
                Math.toIntExact(leaking),
                leaks.boilerplateWindows(),
                parsers.parsed(),
                parsers.guessed(),
                DatasetReport.RedactionCounts.of(redactions),
                licenses.found(),
                format().family().label(),
                runner.seconds());
    }
}
