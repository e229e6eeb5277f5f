package dev.starforge.data.dataset;

import dev.starforge.data.BpeTrainer;
import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.data.TokenBuffer;
import dev.starforge.data.TokenShard;
import dev.starforge.data.TokenShardWriter;
import dev.starforge.data.Tokenizer;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.GitPath;
import java.io.BufferedOutputStream;
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
import java.util.EnumMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevCommit;
import tools.jackson.databind.json.JsonMapper;

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
    private static final long TRAINING_BYTES = 64L << 20;
    private static final int BYTES_PER_TOKEN = 3;
    private static final JsonMapper JSON = new JsonMapper();

    private final DatasetConfig config;
    private final TokenizerChoice choice;
    private final ParserStarter starter;
    private final Progress progress;
    private final LongSupplier nanoTime;
    private final Map<String, Double> seconds = new LinkedHashMap<>();
    private final Map<String, Long> dropped = new TreeMap<>();
    private final Map<String, Long> languages = new TreeMap<>();
    private final PathIndex paths = new PathIndex();
    private final Licences licences = new Licences();
    private final Path work;
    private Redactions redactions = Redactions.NONE;
    private long stageBegan;

    // what is known of each commit, chunk and file, by its number
    private List<ObjectId> commits = List.of();
    private long[] times = new long[0];
    private int[] chunksOf = new int[0];
    private final TokenBuffer chunkUnits = new TokenBuffer();
    private final TokenBuffer chunkCommits = new TokenBuffer();
    private final TokenBuffer chunkFiles = new TokenBuffer();
    private final TokenBuffer fileUnits = new TokenBuffer();
    private final List<String> unitNames = new ArrayList<>();
    private long filesKept;

    public DatasetBuilder(
            DatasetConfig config,
            TokenizerChoice choice,
            ParserStarter starter,
            Progress progress,
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

    /** Builds or grows the dataset; on failure what was there before is still there. */
    public DatasetReport build() {
        try (GitHistory history = GitHistory.open(config.repository(), config.largestBlob())) {
            ObjectId head = history.resolve(config.revision());
            Manifest.refuseForeign(config.out(), work);
            boolean made = !Files.exists(config.out());
            Files.createDirectories(config.out());
            try (FolderLock _ = FolderLock.take(config.out())) {
                return build(history, head);
            } finally {
                if (made) {
                    FolderLock.removeIfAlone(config.out());
                }
            }
        } catch (IOException failure) {
            throw new DatasetException(config.out(), "cannot be written: " + failure.getMessage(), failure);
        } catch (UncheckedIOException failure) {
            throw new DatasetException(
                    config.out(), "cannot be written: " + failure.getCause().getMessage(), failure);
        }
    }

    /** With the folder locked: what is unfinished in it was left by a run that is no more. */
    private DatasetReport build(GitHistory history, ObjectId head) throws IOException {
        try {
            Manifest.discardInterrupted(config.out(), work);
            Manifest manifest = Manifest.open(config, choice);
            List<ObjectId> excluded = new ArrayList<>();
            manifest.heads().forEach(known -> excluded.add(history.resolve(known)));
            if (!config.since().isEmpty()) {
                excluded.add(history.resolve(config.since()));
            }
            begin("walk", 0);
            commits = history.commits(head, excluded);
            if (commits.isEmpty() && manifest.generations() == 0) {
                throw new DatasetException(
                        config.repository(), "has no commits between " + config.since() + " and " + config.revision());
            }
            if (commits.isEmpty()) {
                end("walk");
                return nothingNew(manifest);
            }
            prepare();
            return build(history, head, manifest);
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
        Map<Split, DatasetReport.Count> none = new EnumMap<>(Split.class);
        for (Split split : Split.values()) {
            none.put(split, new DatasetReport.Count(0, 0, 0));
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
                new DatasetReport.Redacted(0, 0, 0),
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

    private DatasetReport build(GitHistory history, ObjectId head, Manifest manifest) throws IOException {
        end("walk");
        history(history);
        findLicences(history, head);
        try (ParserPool parsers = new ParserPool(starter, PARSERS, PATIENCE)) {
            int[] keeper = chunks(history, parsers);
            Times split = Times.of(times, usefulCommits(keeper), config.shares());
            Leakage leakage =
                    new Leakage(config.shares().windowWords(), config.shares().boilerplateFiles());
            List<SampleStage.TreeFile> snapshot = snapshot(history, split, manifest);
            boolean[] leaks = leaks(history, keeper, split, leakage, snapshot, manifest);
            finishChunks(keeper, split, leaks);
            finishFiles(keeper);
            begin("tokenizer", 0);
            Path tokenizerFile = tokenizer(history, snapshot);
            Tokenizer tokenizer =
                    choice instanceof TokenizerChoice.Given given ? given.tokenizer() : Tokenizer.read(tokenizerFile);
            SampleFormat format =
                    new SampleFormat(tokenizer, tokenizerFile, config.samples().family());
            if (!format.fillsIn()) {
                progress.say("The vocabulary has no tokens for filling in: samples are plain text.");
            }
            end("tokenizer");
            Map<String, List<String>> byBlob = new TreeMap<>();
            Map<Split, DatasetReport.Count> counts =
                    samples(history, keeper, split, leaks, leakage, snapshot, format, parsers, byBlob);
            begin("leakage check", 0);
            List<String> tombstones = check(manifest, tokenizer);
            end("leakage check");
            DatasetReport report = report(manifest, keeper, counts, tombstones, leaks, leakage, parsers, format);
            if (config.export() != DatasetConfig.Export.NONE) {
                new Export(work, tokenizer).write(config.export());
            }
            manifest.add(work, head.name(), report, split, tombstones, byBlob, tokenizerFile, tokenizer);
            HtmlReport.write(config.out(), tokenizer);
            return report;
        }
    }

    private OutputStream open(String name) throws IOException {
        return new BufferedOutputStream(Files.newOutputStream(work.resolve(name)), 1 << 20);
    }

    /** Stage 1: commits.jsonl. */
    private void history(GitHistory history) throws IOException {
        begin("history", commits.size());
        Map<ObjectId, List<String>> names = history.names();
        times = new long[commits.size()];
        int[] number = new int[1];
        try (OutputStream out = open("commits.jsonl")) {
            Ordered.run(
                    commits,
                    config.threads(),
                    () -> new HistoryStage(history.reader(), names, config, () -> new Spool(work)),
                    line -> {
                        try {
                            line.json().writeTo(out);
                        } catch (IOException failure) {
                            throw new UncheckedIOException(failure);
                        }
                        times[number[0]++] = line.time();
                        redactions = redactions.plus(line.redactions());
                        line.paths().forEach(paths::add);
                        progress.advance();
                    });
        }
        end("history");
    }

    private void findLicences(GitHistory history, ObjectId head) throws IOException {
        try (GitHistory.Reader reader = history.reader()) {
            for (FileChange.Side file : reader.tree(reader.commit(head))) {
                String path = GitPath.text(file.path());
                if (file.isFile() && Licences.isLicence(path)) {
                    Optional<byte[]> content = reader.blobs().read(file);
                    content.ifPresent(bytes -> licences.add(path, new String(bytes, StandardCharsets.UTF_8)));
                }
            }
        }
    }

    /** Stage 2: chunks and files, as far as they can be told one by one; returns which are duplicates. */
    private int[] chunks(GitHistory history, ParserPool parsers) throws IOException {
        begin("chunks", commits.size());
        chunksOf = new int[commits.size()];
        int[] number = new int[1];
        try (OutputStream chunkLines = open("chunks.part");
                OutputStream fileLines = open("files.part");
                Duplicates duplicates = new Duplicates(
                        work.resolve("grams.part"), config.duplicates().similarity())) {
            Ordered.run(
                    commits,
                    config.threads(),
                    () -> new ChunkStage(history.reader(), config, licences, parsers, paths),
                    result -> {
                        try {
                            take(result, number[0]++, duplicates, chunkLines, fileLines);
                        } catch (IOException failure) {
                            throw new UncheckedIOException(failure);
                        }
                        progress.advance();
                    });
            end("chunks");
            begin("duplicates", 0);
            int[] keeper = duplicates.find();
            end("duplicates");
            return keeper;
        }
    }

    private void take(
            ChunkStage.Result result,
            int commit,
            Duplicates duplicates,
            OutputStream chunkLines,
            OutputStream fileLines)
            throws IOException {
        int firstFile = fileUnits.size();
        JsonText json = new JsonText();
        for (ChunkStage.FileFact file : result.files()) {
            boolean compared = file.grams().length > 0;
            if (compared) {
                unitNames.add(file.path() + "@" + result.commit().substring(0, 12));
            }
            fileUnits.add(compared ? duplicates.add(0, file.hash(), file.grams()) + 1 : 0);
            json.begin().put("path", file.path()).put("blob", file.blob()).put("commit", result.commit());
            json.put("bytes", file.bytes()).put("language", file.language()).put("redactions", file.redactions());
            file.reason().ifPresent(reason -> json.put("reason", reason.label()));
            json.newline();
            file.reason().ifPresent(reason -> dropped.merge(reason.label(), 1L, Long::sum));
            filesKept += file.reason().isEmpty() ? 1 : 0;
            languages.merge(file.language(), 1L, Long::sum);
        }
        fileLines.write(json.bytes().array(), 0, json.bytes().size());
        for (ChunkStage.ChunkFact fact : result.chunks()) {
            JsonText line = new JsonText();
            fact.chunk().write(line);
            line.newline();
            chunkLines.write(line.bytes().array(), 0, line.bytes().size());
            unitNames.add(fact.chunk().id());
            chunkUnits.add(duplicates.add(1, fact.hash(), fact.grams()));
            chunkCommits.add(commit);
            chunkFiles.add(fact.file() < 0 ? 0 : firstFile + fact.file() + 1);
            chunksOf[commit]++;
        }
    }

    private boolean duplicateFile(int chunk, int[] keeper) {
        int file = chunkFiles.get(chunk) - 1;
        return file >= 0 && fileUnits.get(file) > 0 && keeper[fileUnits.get(file) - 1] != Duplicates.KEPT;
    }

    private boolean kept(int chunk, int[] keeper) {
        return keeper[chunkUnits.get(chunk)] == Duplicates.KEPT && !duplicateFile(chunk, keeper);
    }

    private boolean[] usefulCommits(int[] keeper) {
        boolean[] useful = new boolean[commits.size()];
        for (int chunk = 0; chunk < chunkUnits.size(); chunk++) {
            useful[chunkCommits.get(chunk)] |= kept(chunk, keeper);
        }
        return useful;
    }

    /** The files as they were at the end of the training commits; of a later generation, those that it changed. */
    private List<SampleStage.TreeFile> snapshot(GitHistory history, Times split, Manifest manifest) throws IOException {
        begin("snapshot", 0);
        List<SampleStage.TreeFile> files = new ArrayList<>();
        int last = -1;
        for (int commit = 0; commit < times.length; commit++) {
            last = split.of(times[commit]) == Split.TRAIN ? commit : last;
        }
        if (!config.samples().files() || last < 0) {
            end("snapshot");
            return files;
        }
        Set<String> touched = new HashSet<>();
        if (manifest.generations() > 0) {
            try (GitHistory.Reader reader = history.reader()) {
                for (int commit = 0; commit <= last; commit++) {
                    if (split.of(times[commit]) == Split.TRAIN) {
                        reader.changes(reader.commit(commits.get(commit)), config.copies())
                                .forEach(change -> touched.add(GitPath.text(change.path())));
                    }
                }
            }
        }
        try (GitHistory.Reader reader = history.reader();
                Duplicates duplicates = new Duplicates(
                        work.resolve("snapshot.part"), config.duplicates().similarity())) {
            FileFilter filter = new FileFilter(config.filters());
            for (FileChange.Side side : reader.tree(reader.commit(commits.get(last)))) {
                String path = GitPath.text(side.path());
                boolean wanted = manifest.generations() == 0 || touched.contains(path);
                if (!wanted
                        || filter.byName(path, side).isPresent()
                        || config.filters().permissiveOnly() && !licences.permissive(path)) {
                    continue;
                }
                Optional<byte[]> content = reader.blobs().read(side);
                Language language = Language.of(path);
                if (content.isEmpty()
                        || filter.byContent(content.get(), language).isPresent()) {
                    continue;
                }
                Secrets secrets = new Secrets();
                Words words = Words.of(new String(secrets.redact(content.get()), StandardCharsets.UTF_8));
                if (secrets.keys() + secrets.passwords() <= config.filters().mostSecrets()) {
                    duplicates.add(0, words.hash(), words.grams());
                    files.add(new SampleStage.TreeFile(path, side.id()));
                }
            }
            int[] keeper = duplicates.find();
            List<SampleStage.TreeFile> kept = new ArrayList<>();
            for (int i = 0; i < files.size(); i++) {
                if (keeper[i] == Duplicates.KEPT) {
                    kept.add(files.get(i));
                }
            }
            end("snapshot");
            return kept;
        }
    }

    /** Which chunks share a window with a tested one; leaking files are taken off the snapshot. */
    private boolean[] leaks(
            GitHistory history,
            int[] keeper,
            Times split,
            Leakage leakage,
            List<SampleStage.TreeFile> snapshot,
            Manifest manifest)
            throws IOException {
        begin("leaks", 0);
        Leakage testedBefore = manifest.tested(knownTokenizer());
        eachKept(keeper, (number, chunk) -> {
            if (split.of(chunk.time()) != Split.TRAIN) {
                chunk.added().forEach(leakage::hold);
            }
        });
        eachKept(keeper, (number, chunk) -> {
            if (split.of(chunk.time()) == Split.TRAIN) {
                chunk.added().forEach(text -> leakage.look(chunk.path(), text));
            }
        });
        boolean[] leaks = new boolean[chunkUnits.size()];
        try (GitHistory.Reader reader = history.reader()) {
            for (SampleStage.TreeFile file : snapshot) {
                leakage.look(file.path(), shown(reader, file));
            }
            leakage.decide();
            int before = snapshot.size();
            Iterator<SampleStage.TreeFile> files = snapshot.iterator();
            while (files.hasNext()) {
                String text = shown(reader, files.next());
                if (leakage.leaks(text) || testedBefore.leaks(text)) {
                    files.remove();
                }
            }
            if (snapshot.size() < before) {
                dropped.merge("leaking_file", (long) before - snapshot.size(), Long::sum);
            }
        }
        eachKept(keeper, (number, chunk) -> {
            boolean train = split.of(chunk.time()) == Split.TRAIN;
            leaks[number] =
                    train && chunk.added().stream().anyMatch(text -> leakage.leaks(text) || testedBefore.leaks(text));
        });
        end("leaks");
        return leaks;
    }

    /** The tokenizer of the older generations; of the first one there is none yet to be asked. */
    private Optional<Tokenizer> knownTokenizer() {
        Path existing = config.out().resolve(Manifest.TOKENIZER);
        return choice instanceof TokenizerChoice.Given given
                ? Optional.of(given.tokenizer())
                : Files.exists(existing) ? Optional.of(Tokenizer.read(existing)) : Optional.empty();
    }

    private static String shown(GitHistory.Reader reader, SampleStage.TreeFile file) throws IOException {
        byte[] content = reader.blobs().read(file.blob()).orElseThrow();
        return new String(new Secrets().redact(content), StandardCharsets.UTF_8);
    }

    private interface EachChunk {
        void accept(int number, Chunk chunk);
    }

    private void eachKept(int[] keeper, EachChunk each) throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(work.resolve("chunks.part"))) {
            for (int chunk = 0; chunk < chunkUnits.size(); chunk++) {
                String line = lines.readLine();
                if (kept(chunk, keeper)) {
                    each.accept(chunk, Chunk.read(JSON.readTree(line + "}")));
                }
            }
        }
    }

    /** chunks.jsonl: each chunk with the split it is in, or why it is in none. */
    private void finishChunks(int[] keeper, Times split, boolean[] leaks) throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(work.resolve("chunks.part"));
                OutputStream out = open("chunks.jsonl")) {
            for (int chunk = 0; chunk < chunkUnits.size(); chunk++) {
                JsonText end = new JsonText();
                end.continueObject();
                int same = keeper[chunkUnits.get(chunk)];
                if (same != Duplicates.KEPT) {
                    end.put("dropped", "duplicate").put("duplicate_of", unitNames.get(same));
                    dropped.merge("duplicate_chunk", 1L, Long::sum);
                } else if (duplicateFile(chunk, keeper)) {
                    end.put("dropped", "duplicate_file");
                    dropped.merge("chunk_of_duplicate_file", 1L, Long::sum);
                } else if (leaks[chunk]) {
                    end.put("dropped", "leak");
                    dropped.merge("leaking_chunk", 1L, Long::sum);
                } else {
                    end.put("split", split.of(times[chunkCommits.get(chunk)]).label());
                }
                end.end().newline();
                out.write(lines.readLine().getBytes(StandardCharsets.UTF_8));
                out.write(end.bytes().array(), 0, end.bytes().size());
            }
        }
    }

    private void finishFiles(int[] keeper) throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(work.resolve("files.part"));
                OutputStream out = open("files.jsonl")) {
            for (int file = 0; file < fileUnits.size(); file++) {
                String line = lines.readLine();
                int unit = fileUnits.get(file) - 1;
                JsonText end = new JsonText();
                end.continueObject();
                boolean duplicate = unit >= 0 && keeper[unit] != Duplicates.KEPT;
                if (duplicate) {
                    end.put("reason", FileFilter.Reason.DUPLICATE.label());
                    end.put("duplicate_of", unitNames.get(keeper[unit]));
                    dropped.merge(FileFilter.Reason.DUPLICATE.label(), 1L, Long::sum);
                    filesKept--;
                }
                end.put("kept", !duplicate && !line.contains(",\"reason\":\""))
                        .end()
                        .newline();
                out.write(line.getBytes(StandardCharsets.UTF_8));
                out.write(end.bytes().array(), 0, end.bytes().size());
            }
        }
    }

    /** The file of the tokenizer: the one given, or one learned from the training files. */
    private Path tokenizer(GitHistory history, List<SampleStage.TreeFile> snapshot) {
        if (choice instanceof TokenizerChoice.Given given) {
            return given.file();
        }
        Path existing = config.out().resolve(Manifest.TOKENIZER);
        if (Files.exists(existing)) {
            return existing;
        }
        int size = ((TokenizerChoice.Trained) choice).vocabularySize();
        Path file = work.resolve(Manifest.TOKENIZER);
        List<String> texts = new ArrayList<>();
        try (GitHistory.Reader reader = history.reader()) {
            long bytes = 0;
            for (SampleStage.TreeFile source : snapshot) {
                String text = shown(reader, source);
                bytes += text.length();
                if (bytes > TRAINING_BYTES) {
                    break;
                }
                texts.add(text);
            }
        } catch (IOException failure) {
            throw new DatasetException(config.repository(), "cannot be read: " + failure.getMessage(), failure);
        }
        BpeTrainer.train(
                        texts.iterator(),
                        new BpeTrainer.Settings(size, SampleFormat.specialTokens(), BpeTrainer.Splitting.STARCODER2, 2))
                .write(file);
        return file;
    }

    private Map<Split, DatasetReport.Count> samples(
            GitHistory history,
            int[] keeper,
            Times split,
            boolean[] leaks,
            Leakage leakage,
            List<SampleStage.TreeFile> snapshot,
            SampleFormat format,
            ParserPool parsers,
            Map<String, List<String>> byBlob)
            throws IOException {
        List<SampleStage.FilesTask> files = fileTasks(history, split, snapshot);
        begin("samples", files.size() + commits.size());
        Map<Split, TokenShardWriter> writers = new EnumMap<>(Split.class);
        Map<Split, Set<String>> commitsOf = new EnumMap<>(Split.class);
        try (BufferedReader lines = Files.newBufferedReader(work.resolve("chunks.part"))) {
            for (Split each : Split.values()) {
                writers.put(
                        each,
                        new TokenShardWriter(
                                work.resolve(each.shard()), format.tokenizer().size()));
                commitsOf.put(each, new HashSet<>());
            }
            Iterable<SampleStage.Task> tasks = () -> new Tasks(files.iterator(), lines, keeper, split, leaks);
            Ordered.run(
                    tasks,
                    config.threads(),
                    () -> new SampleStage(history.reader(), config, format, parsers, leakage),
                    samples -> {
                        for (SampleStage.Sample sample : samples) {
                            writers.get(sample.split()).add(sample.document(), sample.origin());
                            commitsOf.get(sample.split()).add(sample.origin().commit());
                            sample.blobs()
                                    .forEach(blob -> byBlob.computeIfAbsent(blob, key -> new ArrayList<>())
                                            .add(sample.document().id()));
                        }
                        progress.advance();
                    });
            Map<Split, DatasetReport.Count> counts = new EnumMap<>(Split.class);
            writers.forEach((each, writer) -> {
                writer.finish();
                counts.put(
                        each,
                        new DatasetReport.Count(
                                writer.count(),
                                writer.tokens(),
                                commitsOf.get(each).size()));
            });
            end("samples");
            return counts;
        } finally {
            writers.values().forEach(TokenShardWriter::close);
        }
    }

    /** First the files, then the commits, oldest first. */
    private final class Tasks implements Iterator<SampleStage.Task> {
        private final Iterator<SampleStage.FilesTask> files;
        private final BufferedReader lines;
        private final int[] keeper;
        private final Times split;
        private final boolean[] leaks;
        private int commit;
        private int chunk;

        Tasks(Iterator<SampleStage.FilesTask> files, BufferedReader lines, int[] keeper, Times split, boolean[] leaks) {
            this.files = files;
            this.lines = lines;
            this.keeper = keeper;
            this.split = split;
            this.leaks = leaks;
        }

        @Override
        public boolean hasNext() {
            return files.hasNext() || commit < commits.size();
        }

        @Override
        public SampleStage.Task next() {
            if (files.hasNext()) {
                return files.next();
            }
            List<String> kept = new ArrayList<>();
            try {
                for (int i = 0; i < chunksOf[commit]; i++, chunk++) {
                    String line = lines.readLine();
                    if (kept(chunk, keeper) && !leaks[chunk]) {
                        kept.add(line + "}");
                    }
                }
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
            return new SampleStage.CommitTask(split.of(times[commit]), commits.get(commit++), kept);
        }
    }

    /** Files put together until they fill a document, by lot or so that what is used comes before its users. */
    private List<SampleStage.FilesTask> fileTasks(GitHistory history, Times split, List<SampleStage.TreeFile> snapshot)
            throws IOException {
        List<SampleStage.FilesTask> tasks = new ArrayList<>();
        if (snapshot.isEmpty()) {
            return tasks;
        }
        int last = 0;
        for (int commit = 0; commit < times.length; commit++) {
            last = split.of(times[commit]) == Split.TRAIN ? commit : last;
        }
        List<SampleStage.TreeFile> files = new ArrayList<>(snapshot);
        Collections.shuffle(files, new Random(config.seed()));
        try (GitHistory.Reader reader = history.reader()) {
            if (config.samples().order() == DatasetConfig.Order.DEPENDENCY) {
                files = Dependencies.order(files, reader);
            }
            RevCommit commit = reader.commit(commits.get(last));
            List<SampleStage.TreeFile> open = new ArrayList<>();
            long size = 0;
            long room = (long) config.samples().contextLength() * BYTES_PER_TOKEN;
            for (SampleStage.TreeFile file : files) {
                long length = reader.blobs().read(file.blob()).orElseThrow().length;
                if (size + length > room && !open.isEmpty()) {
                    tasks.add(new SampleStage.FilesTask(commit.name(), commit.getCommitTime(), List.copyOf(open)));
                    open.clear();
                    size = 0;
                }
                open.add(file);
                size += length;
            }
            tasks.add(new SampleStage.FilesTask(commit.name(), commit.getCommitTime(), List.copyOf(open)));
        }
        return tasks;
    }

    /** Reads back what was written: no window may be on both sides. Returns old documents that now leak. */
    private List<String> check(Manifest manifest, Tokenizer tokenizer) {
        Leakage tested = new Leakage(config.shares().windowWords(), Integer.MAX_VALUE);
        try (TokenShard validation = TokenShard.open(work.resolve(Split.VALIDATION.shard()));
                TokenShard test = TokenShard.open(work.resolve(Split.TEST.shard()));
                TokenShard train = TokenShard.open(work.resolve(Split.TRAIN.shard()))) {
            tested.hold(validation, tokenizer);
            tested.hold(test, tokenizer);
            List<Integer> shared = new ArrayList<>(tested.shared(train, tokenizer));
            shared.addAll(manifest.tested(Optional.of(tokenizer)).shared(train, tokenizer));
            if (!shared.isEmpty()) {
                throw new DatasetException(
                        config.out(),
                        "the leakage check failed: " + shared.size() + " training documents share "
                                + config.shares().windowWords() + " words in a row with what is tested, the first is "
                                + train.id(shared.getFirst()));
            }
        }
        return manifest.leaking(tested, tokenizer);
    }

    private DatasetReport report(
            Manifest manifest,
            int[] keeper,
            Map<Split, DatasetReport.Count> counts,
            List<String> tombstones,
            boolean[] leaks,
            Leakage leakage,
            ParserPool parsers,
            SampleFormat format) {
        long keptChunks = 0;
        int leaking = 0;
        for (int chunk = 0; chunk < leaks.length; chunk++) {
            keptChunks += kept(chunk, keeper) && !leaks[chunk] ? 1 : 0;
            leaking += leaks[chunk] ? 1 : 0;
        }
        return new DatasetReport(
                manifest.generations(),
                commits.size(),
                fileUnits.size(),
                filesKept,
                chunkUnits.size(),
                keptChunks,
                dropped,
                languages,
                counts,
                tombstones.size(),
                leaking + (int) (long) dropped.getOrDefault("leaking_file", 0L),
                leakage.boilerplateWindows(),
                parsers.parsed(),
                parsers.guessed(),
                new DatasetReport.Redacted(redactions.keys(), redactions.passwords(), redactions.mails()),
                licences.found(),
                format.family().label(),
                seconds);
    }
}
