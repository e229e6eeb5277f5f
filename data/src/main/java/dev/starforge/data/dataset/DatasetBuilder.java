package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.data.TokenShardWriter;
import dev.starforge.data.dataset.chunk.ChunkWorker;
import dev.starforge.data.dataset.chunk.Ledger;
import dev.starforge.data.dataset.chunk.PathIndex;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.dedup.DuplicateFinder;
import dev.starforge.data.dataset.filter.FolderLicenses;
import dev.starforge.data.dataset.history.HistoryWorker;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.data.dataset.io.TempFile;
import dev.starforge.data.dataset.parse.ParserPool;
import dev.starforge.data.dataset.parse.ParserStarter;
import dev.starforge.data.dataset.redact.Redactions;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.HtmlReport;
import dev.starforge.data.dataset.report.JsonExport;
import dev.starforge.data.dataset.report.Manifest;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.data.dataset.sample.SampleFormat;
import dev.starforge.data.dataset.sample.SampleWorker;
import dev.starforge.data.dataset.sample.TrainingSnapshot;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.data.dataset.split.SplitBoundaries;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.GitPath;
import dev.starforge.text.FileException;
import dev.starforge.text.file.FolderLock;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.text.trainer.BpeTrainer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.ObjectId;

/**
 * From a repository to a dataset, stage by stage; each reads what the one before left in files, so that memory does not
 * grow with the history but for some bytes a commit, a path and a chunk. Everything is written to a folder of its own
 * beside the rest; the manifest, renamed into place last, is what makes it part of the dataset.
 *
 * <p>An existing dataset grows by a generation: commits that it has not seen, split by themselves. Nothing of the older
 * generations is touched. What they train on and the new one tests is named in the manifest, and not handed out any more.
 */
public final class DatasetBuilder {
    private static final String BUILDING = ".building";

    /** Where parsers may unpack what they need; removed with the rest. */
    private static final String NATIVE = "native";

    private static final int PARSERS = 2;
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final long TRAINING_CHARACTERS = 64L << 20;

    /** Commits that a thread takes in a row; what they become waits in a file for those before. */
    private static final int LONGEST_RUN = 2048;

    /** Fewer where what is known of them waits in memory. */
    private static final int LONGEST_CHUNK_RUN = 256;

    private final DatasetConfig config;
    private final TokenizerChoice choice;
    private final ParserStarter starter;
    private final BuildProgress progress;
    private final LongSupplier nanoTime;
    private final Map<String, Double> seconds = new LinkedHashMap<>();
    private final PathIndex paths = new PathIndex();
    private final FolderLicenses licences = new FolderLicenses();
    private final Path work;
    private Redactions redactions = Redactions.NONE;
    private long stageBegan;

    public DatasetBuilder(
            DatasetConfig config,
            TokenizerChoice choice,
            ParserStarter starter,
            BuildProgress progress,
            LongSupplier nanoTime) {
        this.config = config;
        this.choice = choice;
        this.starter = starter;
        this.progress = progress;
        this.nanoTime = nanoTime;
        work = config.out().resolve(BUILDING);
    }

    /** The folder that exists while the dataset in {@code out} is built, for what the parsers write. */
    public static Path parserFolder(Path out) {
        return out.resolve(BUILDING).resolve(NATIVE);
    }

    /** The folders that a build into {@code out} would make. */
    public static List<Path> missing(Path out) {
        return FolderLock.missing(out);
    }

    /** Builds or grows the dataset; on failure what was there before is still there. */
    public DatasetReport build() {
        stageBegan = nanoTime.getAsLong();
        try (GitHistory history = GitHistory.open(
                config.repository(), config.get(DatasetKeys.MAX_BLOB_BYTES), config.get(DatasetKeys.SKIP_MISSING))) {
            ObjectId head = history.resolve(config.revision());
            if (history.isShallow()) {
                progress.say(
                        "Warning: " + config.repository() + " is a shallow clone, so its older commits are missing; "
                                + "`git fetch --unshallow` gets them.");
            }
            if (choice instanceof TokenizerChoice.ExistingTokenizer given) {
                // fails now rather than after the long stages
                new SampleFormat(given.tokenizer(), given.file(), config.get(DatasetKeys.FAMILY));
            }
            Manifest.refuseForeign(config.out(), work);
            List<Path> made = FolderLock.missing(config.out());
            Files.createDirectories(config.out());
            try (FolderLock _ = FolderLock.take(config.out(), "starforge dataset")) {
                return build(history, head);
            } finally {
                FolderLock.removeIfAlone(made);
            }
        } catch (IOException failure) {
            throw new DatasetException(config.out(), "cannot be written: " + failure.getMessage(), failure);
        } catch (UncheckedIOException failure) {
            throw new DatasetException(
                    config.out(),
                    "cannot be written: "
                            + Objects.requireNonNull(failure.getCause()).getMessage(),
                    failure);
        }
    }

    /** With the folder locked: what is unfinished in it was left by a run that is no more. */
    private DatasetReport build(GitHistory history, ObjectId head) throws IOException {
        try {
            Manifest.discardInterrupted(config.out(), work);
            Optional<Manifest> known = Manifest.existing(config, choice);
            List<ObjectId> excluded = new ArrayList<>();
            known.ifPresent(manifest -> manifest.heads().forEach(commit -> excluded.add(history.resolve(commit))));
            if (!config.since().isEmpty()) {
                excluded.add(history.resolve(config.since()));
            }
            end("open");
            begin("walk", 0);
            List<ObjectId> commits = history.commits(head, excluded);
            end("walk");
            if (commits.isEmpty() && known.map(Manifest::generations).orElse(0) == 0) {
                throw new DatasetException(
                        config.repository(), "has no commits between " + config.since() + " and " + config.revision());
            }
            if (commits.isEmpty()) {
                if (!Files.exists(config.out().resolve(HtmlReport.NAME))) {
                    HtmlReport.write(config.out(), knownTokenizer().orElseThrow());
                }
                return nothingNew(known.orElseThrow());
            }
            if (!config.get(DatasetKeys.SKIP_MISSING)) {
                begin("check", commits.size());
                history.firstMissing(commits, progress::advance).ifPresent(blob -> {
                    throw history.missing(blob);
                });
                end("check");
            }
            prepare();
            return build(history, head, known, commits);
        } finally {
            Manifest.discardInterrupted(config.out(), work);
            remove(work);
        }
    }

    private void prepare() throws IOException {
        remove(work);
        Files.createDirectory(work);
        Files.createDirectory(work.resolve(NATIVE));
    }

    /**
     * Removes what an interrupted build has left so far, which may still be at work.
     *
     * @param made what {@link #missing} said before
     */
    public static void discard(Path out, List<Path> made) {
        for (int i = 0; i < 20 && Files.exists(out.resolve(BUILDING)); i++) {
            try {
                remove(out.resolve(BUILDING));
            } catch (FileException | UncheckedIOException changed) {
                continue; // there is something new in it
            }
        }
        try {
            FolderLock.removeIfAlone(made);
        } catch (IOException left) {
            throw new DatasetException(out, "cannot be removed: " + left.getMessage(), left);
        }
    }

    private static void remove(Path folder) {
        if (!Files.isDirectory(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Collections.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        } catch (IOException failure) {
            throw new DatasetException(folder, "cannot be removed: " + failure.getMessage(), failure);
        }
    }

    private DatasetReport nothingNew(Manifest manifest) {
        Map<Split, DatasetReport.SplitCount> none = new EnumMap<>(Split.class);
        for (Split split : Split.values()) {
            none.put(split, new DatasetReport.SplitCount(0, 0, 0));
        }
        return new DatasetReport(
                -1,
                0,
                0,
                0,
                0,
                0,
                Map.of(),
                Map.of(),
                none,
                0,
                0,
                0,
                0,
                0,
                new DatasetReport.RedactionCounts(0, 0, 0, Map.of(), List.of()),
                Map.of(),
                manifest.family(),
                seconds);
    }

    private void begin(String stage, long total) {
        stageBegan = nanoTime.getAsLong();
        progress.begin(stage, total);
    }

    private void end(String stage) {
        seconds.merge(stage, (nanoTime.getAsLong() - stageBegan) / 1e9, Double::sum);
    }

    private DatasetReport build(GitHistory history, ObjectId head, Optional<Manifest> known, List<ObjectId> commits)
            throws IOException {
        Ledger ledger = new Ledger(work, commits);
        history(history, ledger);
        findLicences(history, head);
        Manifest manifest = known.orElseGet(() -> Manifest.empty(config, choice));
        try (ParserPool parsers = new ParserPool(starter, PARSERS, PATIENCE)) {
            chunks(history, ledger, parsers, manifest);
            SplitBoundaries split = SplitBoundaries.of(ledger.times(), ledger.usefulCommits(), config);
            ledger.dropRepeated(split);
            begin("snapshot", 0);
            TrainingSnapshot snapshot =
                    TrainingSnapshot.of(history, config, ledger, split, licences, work, manifest.generations() > 0);
            ledger.drop(Ledger.SIMILAR_FILE, snapshot.similar());
            end("snapshot");
            LeakDetector leakage =
                    new LeakDetector(config.get(DatasetKeys.WINDOW_WORDS), config.get(DatasetKeys.BOILERPLATE_FILES));
            leaks(history, ledger, split, leakage, snapshot, manifest);
            ledger.finishChunks(split);
            ledger.finishFiles();
            begin("tokenizer", 0);
            Path tokenizerFile = tokenizer(snapshot);
            Tokenizer tokenizer = choice instanceof TokenizerChoice.ExistingTokenizer given
                    ? given.tokenizer()
                    : Tokenizer.read(tokenizerFile);
            SampleFormat format = new SampleFormat(tokenizer, tokenizerFile, config.get(DatasetKeys.FAMILY));
            if (choice instanceof TokenizerChoice.TokenizerToTrain trained
                    && tokenizerFile.startsWith(work)
                    && tokenizer.size() < trained.vocabularySize()) {
                progress.say(String.format(
                        Locale.ROOT,
                        "The tokenizer has %,d tokens, not %,d: in the training files no two neighbouring tokens of a"
                                + " word are left that occur twice.",
                        tokenizer.size(),
                        trained.vocabularySize()));
            }
            if (!format.fillsIn()) {
                progress.say("The vocabulary has no tokens for filling in: samples are plain text.");
            }
            end("tokenizer");
            Map<String, List<String>> byBlob = new TreeMap<>();
            Map<Split, DatasetReport.SplitCount> counts =
                    samples(history, ledger, split, leakage, snapshot, format, parsers, byBlob);
            begin("leakage check", Split.TRAIN.in(counts).documents());
            LeakageCheck check = new LeakageCheck(work, config, manifest, tokenizer, this::advance);
            Set<String> leaking = check.drop();
            if (!leaking.isEmpty()) {
                ledger.drop(Ledger.LEAKING_DOCUMENT, leaking.size());
                byBlob.values().forEach(ids -> ids.removeAll(leaking));
                byBlob.values().removeIf(List::isEmpty);
                counts.put(Split.TRAIN, check.trained());
            }
            List<String> tombstones = check.tombstones();
            end("leakage check");
            begin("manifest", 0);
            if (config.get(DatasetKeys.EXPORT) != DatasetConfig.ExportFormat.NONE) {
                new JsonExport(work, tokenizer).write(config.get(DatasetKeys.EXPORT));
            }
            DatasetReport report = report(manifest, ledger, counts, tombstones, leakage, parsers, format);
            manifest.add(work, head.name(), report, split, tombstones, byBlob, tokenizerFile, tokenizer);
            HtmlReport.write(config.out(), tokenizer);
            end("manifest");
            return report;
        }
    }

    /** For workers, of which several finish something at once. */
    private void advance() {
        synchronized (progress) {
            progress.advance();
        }
    }

    /** Stage 1: commits.jsonl. */
    private void history(GitHistory history, Ledger ledger) throws IOException {
        begin("history", ledger.commits().size());
        Map<ObjectId, List<String>> names = history.names();
        try (OutputStream out = ledger.open("commits.jsonl")) {
            ParallelMap.run(
                    ParallelMap.runs(ledger.commits(), config.threads(), LONGEST_RUN),
                    config.threads(),
                    () -> new HistoryWorker(history.reader(), names, config, () -> new TempFile(work), this::advance),
                    run -> {
                        run.json().writeTo(out);
                        for (HistoryWorker.CommitFacts line : run.lines()) {
                            ledger.time(line.time());
                            redactions = redactions.plus(line.redactions());
                            line.paths().forEach(paths::add);
                        }
                    });
        }
        end("history");
    }

    private void findLicences(GitHistory history, ObjectId head) throws IOException {
        try (GitHistory.CommitReader reader = history.reader()) {
            for (FileChange.Side file : reader.tree(reader.commit(head))) {
                String path = GitPath.text(file.path());
                if (file.isFile() && FolderLicenses.isLicence(path)) {
                    Optional<byte[]> content = reader.blobs().read(file);
                    content.ifPresent(bytes -> licences.add(path, new String(bytes, StandardCharsets.UTF_8)));
                }
            }
        }
    }

    /** Stage 2: chunks and files, as far as they can be told one by one, and which are duplicates. */
    private void chunks(GitHistory history, Ledger ledger, ParserPool parsers, Manifest manifest) throws IOException {
        begin("chunks", ledger.commits().size());
        try (OutputStream chunkLines = ledger.openChunks();
                OutputStream fileLines = ledger.openFiles();
                DuplicateFinder duplicates =
                        new DuplicateFinder(work.resolve("grams.part"), config.get(DatasetKeys.SIMILARITY))) {
            manifest.eachTrained(chunk -> ledger.older(chunk, duplicates, config.get(DatasetKeys.MIN_WORDS)));
            ParallelMap.run(
                    ParallelMap.runs(ledger.commits(), config.threads(), LONGEST_CHUNK_RUN),
                    config.threads(),
                    () -> new ChunkWorker(
                            history.reader(),
                            config,
                            licences,
                            parsers,
                            paths,
                            () -> new TempFile(work),
                            this::advance),
                    run -> {
                        run.chunkLines().writeTo(chunkLines);
                        run.fileLines().writeTo(fileLines);
                        run.results().forEach(result -> ledger.take(result, duplicates));
                    });
            end("chunks");
            begin("duplicates", 0);
            ledger.duplicates(duplicates.find());
            end("duplicates");
        }
    }

    /** Finds the chunks that share a window with a tested one, and takes leaking files off the snapshot. */
    private void leaks(
            GitHistory history,
            Ledger ledger,
            SplitBoundaries split,
            LeakDetector leakage,
            TrainingSnapshot snapshot,
            Manifest manifest)
            throws IOException {
        begin("leaks", 3L * ledger.chunks());
        LeakDetector testedBefore = manifest.tested(knownTokenizer());
        ledger.each(split, false, (number, chunk) -> chunk.added().forEach(leakage::hold), this::advance);
        ledger.each(
                split,
                true,
                (number, chunk) -> chunk.added().forEach(text -> leakage.look(chunk.path(), text)),
                this::advance);
        snapshot.each(leakage::look);
        if (manifest.generations() > 0) {
            // what the older generations train on tells boilerplate too
            TrainingSnapshot.each(
                    history, config, history.resolve(manifest.heads().getLast()), leakage::look);
        }
        leakage.decide();
        ledger.drop(Ledger.LEAKING_FILE, snapshot.remove(text -> leakage.leaks(text) || testedBefore.leaks(text)));
        ledger.each(
                split,
                true,
                (number, chunk) -> {
                    if (chunk.added().stream().anyMatch(text -> leakage.leaks(text) || testedBefore.leaks(text))) {
                        ledger.leaks(number);
                    }
                },
                this::advance);
        end("leaks");
    }

    /** The tokenizer of the older generations; of the first one there is none yet to be asked. */
    private Optional<Tokenizer> knownTokenizer() {
        Path existing = config.out().resolve(Manifest.TOKENIZER);
        return choice instanceof TokenizerChoice.ExistingTokenizer given
                ? Optional.of(given.tokenizer())
                : Files.exists(existing) ? Optional.of(Tokenizer.read(existing)) : Optional.empty();
    }

    /** The file of the tokenizer: the one given, or one learned from the training files. */
    private Path tokenizer(TrainingSnapshot snapshot) {
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
                        snapshot.texts(TRAINING_CHARACTERS).iterator(),
                        new BpeTrainer.Settings(size, SampleFormat.specialTokens(), BpeTrainer.Splitting.STARCODER2, 2))
                .beginningWith(SampleFormat.specialTokens().getFirst())
                .write(file);
        return file;
    }

    private Map<Split, DatasetReport.SplitCount> samples(
            GitHistory history,
            Ledger ledger,
            SplitBoundaries split,
            LeakDetector leakage,
            TrainingSnapshot snapshot,
            SampleFormat format,
            ParserPool parsers,
            Map<String, List<String>> byBlob)
            throws IOException {
        List<SampleWorker.FilesTask> files = snapshot.tasks();
        begin("samples", files.size() + ledger.commits().size());
        Map<Split, TokenShardWriter> writers = new EnumMap<>(Split.class);
        Map<Split, Set<String>> commitsOf = new EnumMap<>(Split.class);
        try (BufferedReader lines = ledger.readChunks()) {
            for (Split each : Split.values()) {
                writers.put(
                        each,
                        new TokenShardWriter(
                                work.resolve(each.shard()), format.tokenizer().size()));
                commitsOf.put(each, new HashSet<>());
            }
            ParallelMap.run(
                    ledger.tasks(files, lines, split),
                    config.threads(),
                    () -> new SampleWorker(history.reader(), config, format, parsers, leakage, this::advance),
                    run -> {
                        ledger.drop(Ledger.TOO_LONG_SAMPLE, run.tooLong());
                        for (SampleWorker.TokenizedSample sample : run.samples()) {
                            sample.split().in(writers).add(sample.document(), sample.origin());
                            sample.split().in(commitsOf).add(sample.origin().commit());
                            sample.blobs()
                                    .forEach(blob -> byBlob.computeIfAbsent(blob, key -> new ArrayList<>())
                                            .add(sample.document().id()));
                        }
                    });
            Map<Split, DatasetReport.SplitCount> counts = new EnumMap<>(Split.class);
            writers.forEach((each, writer) -> {
                writer.finish();
                counts.put(
                        each,
                        new DatasetReport.SplitCount(
                                writer.count(),
                                writer.tokens(),
                                each.in(commitsOf).size()));
            });
            end("samples");
            return counts;
        } finally {
            writers.values().forEach(TokenShardWriter::close);
        }
    }

    private DatasetReport report(
            Manifest manifest,
            Ledger ledger,
            Map<Split, DatasetReport.SplitCount> counts,
            List<String> tombstones,
            LeakDetector leakage,
            ParserPool parsers,
            SampleFormat format) {
        return new DatasetReport(
                manifest.generations(),
                ledger.commits().size(),
                ledger.files(),
                ledger.filesKept(),
                ledger.chunks(),
                ledger.chunksKept(),
                ledger.dropped(),
                ledger.languages(),
                counts,
                tombstones.size(),
                ledger.leaking(),
                leakage.boilerplateWindows(),
                parsers.parsed(),
                parsers.guessed(),
                redacted(redactions),
                licences.found(),
                format.family().label(),
                seconds);
    }

    private static DatasetReport.RedactionCounts redacted(Redactions redactions) {
        Map<String, Long> rules = new TreeMap<>();
        redactions.counts().forEach((rule, count) -> rules.put(rule.label(), count));
        List<DatasetReport.MaskedExample> examples = redactions.examples().stream()
                .sorted(Comparator.comparing(Redactions.MaskedValue::rule))
                .map(example -> new DatasetReport.MaskedExample(
                        example.rule().label(), example.masked(), example.path(), example.line()))
                .toList();
        return new DatasetReport.RedactionCounts(
                redactions.of(Redactor.KEY),
                redactions.of(Redactor.PASSWORD),
                redactions.of(Redactor.EMAIL),
                rules,
                examples);
    }
}
