package dev.starforge.data.dataset.sample;

import dev.starforge.data.DatasetException;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.dataset.chunk.Chunker;
import dev.starforge.data.dataset.chunk.CodeChunk;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.dedup.WordHashes;
import dev.starforge.data.dataset.history.HistoryWorker;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.dataset.parse.Outline;
import dev.starforge.data.dataset.parse.ParserPool;
import dev.starforge.data.dataset.redact.RedactedBlobs;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.LineIndex;
import dev.starforge.text.TokenBuffer;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevCommit;

/**
 * Turns commits, changed functions and files into tokenized documents, none longer than the context. What is drawn by lot
 * for a document depends on the seed and its name alone, so the order of work does not matter. Added lines count in the
 * loss, and whole files do; what is only shown around them does not.
 */
public final class SampleWorker
        implements ParallelMap.BatchWorker<List<SampleWorker.SampleTask>, SampleWorker.SampleBatch> {
    private static final Pattern HUNK = Pattern.compile("(?dm)^@@ -(\\d+),(\\d+) \\+(\\d+),(\\d+) @@");
    /** What the names of chunks' documents begin with. */
    public static final String CHUNK = "chunk-";

    private static final int LONGEST_BODY = 2000;
    private static final double MESSAGE_SHARE = 0.75;
    private static final double PREFIX_SHARE = 0.6;
    private static final double CONTEXT_SHARE = 0.25;
    private static final int ROOM_FOR_MARKS = 32;

    /** What documents are made of. */
    public sealed interface SampleTask {}

    /**
     * The chunks of a commit that were kept.
     *
     * @param chunks lines of JSON
     */
    public record CommitTask(Split split, ObjectId commit, List<String> chunks) implements SampleTask {}

    /** Files of a tree that go into one document, if they fit. */
    public record FilesTask(String commit, long time, List<TreeFile> files) implements SampleTask {}

    /** A file by its place and content. */
    record TreeFile(String path, ObjectId blob) {}

    /**
     * A document and what it came from.
     *
     * @param blobs the contents it shows something of
     */
    public record TokenizedSample(
            Split split, TokenDocument document, SampleOrigin origin, List<String> blobs, String kind) {}

    /** The documents of some tasks, and how much no document had room for. */
    public record SampleBatch(List<TokenizedSample> samples, int tooLong) {}

    private final GitHistory.CommitReader reader;
    private final DatasetConfig config;
    private final SampleFormat format;
    private final ParserPool parsers;
    private final LeakDetector leakage;
    private final RedactedBlobs shownBlobs;
    private final Runnable each;
    private List<TokenizedSample> samples = new ArrayList<>();
    private int tooLong;

    private String measuredBlob = "";
    private LineIndex measured = LineIndex.of(new byte[0]);
    private int[] lineTokens = new int[0];

    /** @param each is run after every task, by whatever thread */
    public SampleWorker(
            GitHistory.CommitReader reader,
            DatasetConfig config,
            SampleFormat format,
            ParserPool parsers,
            LeakDetector leakage,
            Runnable each) {
        this.reader = reader;
        this.config = config;
        this.format = format;
        this.parsers = parsers;
        this.leakage = leakage;
        shownBlobs = new RedactedBlobs(reader.blobs());
        this.each = each;
    }

    @Override
    public SampleBatch apply(List<SampleTask> tasks) {
        samples = new ArrayList<>();
        tooLong = 0;
        for (SampleTask task : tasks) {
            try {
                switch (task) {
                    case CommitTask commit -> samples(read(commit));
                    case FilesTask files -> files(files);
                }
            } catch (IOException failure) {
                throw new DatasetException(config.repository(), "cannot be read: " + failure.getMessage(), failure);
            }
            each.run();
        }
        return new SampleBatch(samples, tooLong);
    }

    private void samples(CommitChanges commit) throws IOException {
        if (config.get(DatasetKeys.COMMITS)) {
            int first = samples.size();
            commit(commit);
            drawSome(samples.subList(first, samples.size()), commit.commit());
        }
        if (config.get(DatasetKeys.CHUNKS)) {
            for (CodeChunk chunk : commit.chunks()) {
                chunk(commit, chunk);
            }
        }
    }

    /** Leaves so many documents as a commit may have, in their order. */
    private void drawSome(List<TokenizedSample> documents, String commit) {
        int most = config.get(DatasetKeys.COMMIT_DOCUMENTS);
        SplittableRandom random = random(commit + " documents");
        while (most > 0 && documents.size() > most) {
            documents.remove(random.nextInt(documents.size()));
        }
    }

    private record CommitChanges(
            Split split, String commit, long time, String subject, String body, List<CodeChunk> chunks) {}

    private CommitChanges read(CommitTask task) {
        RevCommit commit = reader.commit(task.commit());
        String message = HistoryWorker.message(commit, config, new Redactor());
        int end = message.indexOf('\n');
        return new CommitChanges(
                task.split(),
                commit.name(),
                GitHistory.time(commit),
                end < 0 ? message : message.substring(0, end),
                end < 0 ? "" : message.substring(end).strip(),
                task.chunks().stream()
                        .map(line -> CodeChunk.read(Jackson.JSON.readTree(line)))
                        .toList());
    }

    private SplittableRandom random(String id) {
        return new SplittableRandom(
                WordHashes.mix(config.seed()) ^ WordHashes.of(id).hash());
    }

    private int tokens(List<SampleFormat.SampleSpan> pieces) {
        TokenBuffer ids = new TokenBuffer();
        pieces.forEach(piece -> format.encode(piece, ids));
        return ids.size();
    }

    private int tokens(String text) {
        return tokens(List.of(new SampleFormat.SampleSpan(false, text, false)));
    }

    /** The ids of pieces, and which count. */
    private record EncodedSample(int[] ids, boolean[] counted) {}

    /** The pieces as they are written: of what is tested, boilerplate does not count. */
    private List<SampleFormat.SampleSpan> written(Split split, List<SampleFormat.SampleSpan> pieces) {
        return split == Split.TRAIN ? pieces : leakage.withoutBoilerplate(pieces);
    }

    private EncodedSample encode(Split split, List<SampleFormat.SampleSpan> all) {
        List<SampleFormat.SampleSpan> pieces = written(split, all);
        TokenBuffer ids = new TokenBuffer();
        int[] ends = new int[pieces.size()];
        for (int i = 0; i < ends.length; i++) {
            format.encode(pieces.get(i), ids);
            ends[i] = ids.size();
        }
        boolean[] counted = new boolean[ids.size()];
        for (int i = 0, from = 0; i < ends.length; from = ends[i++]) {
            Arrays.fill(counted, from, ends[i], pieces.get(i).counted());
        }
        return new EncodedSample(ids.toArray(), counted);
    }

    private void emit(
            Split split, String id, String kind, SampleOrigin origin, List<String> blobs, EncodedSample encoded) {
        samples.add(
                new TokenizedSample(split, new TokenDocument(id, encoded.ids, encoded.counted), origin, blobs, kind));
    }

    private static String folder(String path) {
        return path.substring(0, Math.max(0, path.lastIndexOf('/')));
    }

    private String shown(String blob) throws IOException {
        return new String(shownBlobs.read(ObjectId.fromString(blob)).orElse(new byte[0]), StandardCharsets.UTF_8);
    }

    // commits

    private void commit(CommitChanges task) throws IOException {
        Map<String, List<CodeChunk>> byPath = new LinkedHashMap<>();
        task.chunks()
                .forEach(chunk -> byPath.computeIfAbsent(chunk.path(), path -> new ArrayList<>())
                        .add(chunk));
        String body = task.body().length() > LONGEST_BODY ? task.body().substring(0, LONGEST_BODY) : task.body();
        int head = tokens(format.commit(config.name(), task.subject(), body, List.of()));
        while (head > MESSAGE_SHARE * config.contextLength() && !body.isEmpty()) {
            body = body.substring(0, body.length() / 2);
            head = tokens(format.commit(config.name(), task.subject(), body, List.of()));
        }
        if (head >= config.contextLength() - 1) {
            tooLong++;
            return;
        }
        CommitBudget sizes = new CommitBudget(task, body, head, config.contextLength() - head - 1);
        List<SampleFormat.ChangedFile> open = new ArrayList<>();
        List<String> blobs = new ArrayList<>();
        int used = 0;
        int number = 0;
        for (Map.Entry<String, List<CodeChunk>> entry : byPath.entrySet()) {
            for (SizedFile file : fitting(sizes, entry.getKey(), entry.getValue())) {
                if (used + file.tokens > sizes.room && !open.isEmpty()) {
                    emitCommit(task, body, open, blobs, number++);
                    open = new ArrayList<>();
                    blobs = new ArrayList<>();
                    used = 0;
                }
                open.add(file.file);
                blobs.add(entry.getValue().getFirst().blob());
                used += file.tokens;
            }
        }
        if (!open.isEmpty()) {
            emitCommit(task, body, open, blobs, number);
        }
    }

    /** A changed file, and how many tokens it adds to its commit. */
    private record SizedFile(SampleFormat.ChangedFile file, int tokens) {}

    /**
     * What a commit's files must fit into.
     *
     * @param head tokens of the message, before any file
     * @param room for files
     */
    private record CommitBudget(CommitChanges task, String body, int head, int room) {}

    private SizedFile sized(CommitBudget sizes, SampleFormat.ChangedFile file) {
        CommitChanges task = sizes.task;
        List<SampleFormat.SampleSpan> alone = format.commit(config.name(), task.subject(), sizes.body, List.of(file));
        return new SizedFile(file, tokens(written(task.split(), alone)) - sizes.head);
    }

    private void emitCommit(
            CommitChanges task, String body, List<SampleFormat.ChangedFile> files, List<String> blobs, int number) {
        List<SampleFormat.SampleSpan> pieces =
                new ArrayList<>(format.commit(config.name(), task.subject(), body, files));
        pieces.addAll(format.end(false));
        emit(
                task.split(),
                "commit-" + task.commit().substring(0, 16) + "-" + number,
                "commit",
                new SampleOrigin(
                        task.commit(), task.time(), folder(files.getFirst().path())),
                blobs.stream().distinct().toList(),
                encode(task.split(), pieces));
    }

    /** A changed file in as many parts as it takes for each to fit. */
    private List<SizedFile> fitting(CommitBudget sizes, String path, List<CodeChunk> chunks) throws IOException {
        SplittableRandom random = random(sizes.task.commit() + path);
        List<String> hunks = new ArrayList<>();
        chunks.forEach(chunk -> hunks.addAll(List.of(chunk.patch().split("(?dm)(?=^@@ )"))));
        String base = base(chunks, random);
        // no token spans two lines with words, so that a file of 20,000 lines need not be encoded to see that it is too
        // long
        if (base.lines().filter(line -> !line.isBlank()).limit(sizes.room + 1L).count() <= sizes.room) {
            SizedFile whole = sized(sizes, new SampleFormat.ChangedFile(path, base, hunks));
            if (whole.tokens <= sizes.room) {
                return List.of(whole);
            }
        }
        List<SizedFile> fitting = new ArrayList<>();
        for (String hunk : hunks) {
            halves(sizes, path, hunk, fitting);
        }
        return fitting;
    }

    private void halves(CommitBudget sizes, String path, String hunk, List<SizedFile> fitting) {
        SizedFile file = sized(sizes, new SampleFormat.ChangedFile(path, "", List.of(hunk)));
        List<String> lines = List.of(hunk.split("(?<=\n)"));
        if (file.tokens <= sizes.room) {
            fitting.add(file);
        } else if (lines.size() > 1) {
            halves(sizes, path, String.join("", lines.subList(0, lines.size() / 2)), fitting);
            halves(sizes, path, String.join("", lines.subList(lines.size() / 2, lines.size())), fitting);
        } else {
            tooLong++;
        }
    }

    /** The file before the commit: all of it, or some lines around what changed. */
    private String base(List<CodeChunk> chunks, SplittableRandom random) throws IOException {
        String old = shown(chunks.getFirst().oldBlob());
        boolean whole = random.nextDouble() < config.get(DatasetKeys.WHOLE_BASE);
        int around = random.nextInt(config.get(DatasetKeys.BASE_LINES) + 1);
        if (whole || old.isEmpty()) {
            return old;
        }
        int from = Integer.MAX_VALUE;
        int to = 0;
        for (CodeChunk chunk : chunks) {
            Matcher hunk = HUNK.matcher(chunk.patch());
            while (hunk.find()) {
                int count = Integer.parseInt(hunk.group(2));
                int start = Integer.parseInt(hunk.group(1)) - Math.min(1, count);
                from = Math.min(from, start);
                to = Math.max(to, start + count);
            }
        }
        LineIndex lines = LineIndex.of(old.getBytes(StandardCharsets.UTF_8));
        return Chunker.text(lines, Math.max(0, from - around), Math.min(lines.count(), to + around));
    }

    // changed functions, to be filled in

    private void chunk(CommitChanges task, CodeChunk chunk) throws IOException {
        boolean code = Language.of(chunk.path()).kind() == Language.ContentType.CODE;
        if (!format.fillsIn() || !code || chunk.changed().isEmpty()) {
            return;
        }
        CodeChunk.LineRange longest = chunk.changed().stream()
                .max(Comparator.comparingInt((CodeChunk.LineRange range) -> range.to() - range.from())
                        .thenComparing(Comparator.comparingInt(CodeChunk.LineRange::from)
                                .reversed()))
                .orElseThrow();
        measure(chunk.blob());
        LineIndex lines = measured;
        if (longest.to() > lines.count()) {
            return;
        }
        int context = config.contextLength();
        int end = longest.to();
        String middle = Chunker.text(lines, longest.from(), end);
        int size = tokens(middle);
        while (size > context / 2 && end > longest.from() + 1) {
            end = longest.from() + (end - longest.from()) / 2;
            middle = Chunker.text(lines, longest.from(), end);
            size = tokens(middle);
        }
        int room = context - size - ROOM_FOR_MARKS;
        if (middle.isBlank()) {
            return;
        }
        if (room < 0) {
            tooLong++;
            return;
        }
        boolean metadata = random(chunk.id()).nextDouble() < config.get(DatasetKeys.METADATA);
        boolean suffixFirst = random(chunk.id() + " order").nextDouble() < config.get(DatasetKeys.SPM);
        List<SampleFormat.SampleSpan> before = context(chunk, (int) (CONTEXT_SHARE * room));
        room -= tokens(before) + tokens(chunk.path() + "\n");
        EncodedSample encoded;
        int over = 0;
        do {
            room -= over;
            int after = ending(end, (int) ((1 - PREFIX_SHARE) * room));
            int from = beginning(longest.from(), room - sum(end, after));
            List<SampleFormat.SampleSpan> pieces = new ArrayList<>(before);
            SampleFormat.FimSplit gap = new SampleFormat.FimSplit(
                    Chunker.text(lines, from, longest.from()), middle, Chunker.text(lines, end, after));
            pieces.addAll(format.gap(chunk.path(), gap, metadata, suffixFirst, false));
            pieces.addAll(format.end(true));
            encoded = encode(task.split(), pieces);
            over = encoded.ids.length - context;
        } while (over > 0 && room > 0);
        if (over > 0) {
            tooLong++;
            return;
        }
        emit(
                task.split(),
                CHUNK + chunk.id(),
                "chunk",
                new SampleOrigin(task.commit(), task.time(), folder(chunk.path())),
                List.of(chunk.blob()),
                encoded);
    }

    /** Declarations that the chunk uses, as files before its own. */
    private List<SampleFormat.SampleSpan> context(CodeChunk chunk, int room) {
        Map<String, StringBuilder> byPath = new LinkedHashMap<>();
        chunk.context()
                .forEach(signature -> byPath.computeIfAbsent(signature.path(), path -> new StringBuilder())
                        .append(signature.text())
                        .append('\n'));
        List<SampleFormat.SampleSpan> pieces = new ArrayList<>();
        int used = 0;
        for (Map.Entry<String, StringBuilder> entry : byPath.entrySet()) {
            List<SampleFormat.SampleSpan> file = format.file(
                    new SampleFormat.SourceFile(entry.getKey(), entry.getValue().toString()), true, false);
            used += tokens(file);
            if (used > room) {
                break;
            }
            pieces.addAll(file);
        }
        return pieces;
    }

    /** Remembers the lines of a file, of which several chunks in a row ask how many tokens they have. */
    private void measure(String blob) throws IOException {
        if (!blob.equals(measuredBlob)) {
            measuredBlob = blob;
            measured = LineIndex.of(shown(blob).getBytes(StandardCharsets.UTF_8));
            lineTokens = new int[measured.count()];
        }
    }

    /** Tokens of a line by itself; among others it may have fewer, since blanks join across lines. */
    private int lineTokens(int line) {
        if (lineTokens[line] == 0) {
            lineTokens[line] = tokens(Chunker.text(measured, line, line + 1));
        }
        return lineTokens[line];
    }

    private int sum(int from, int to) {
        int sum = 0;
        for (int line = from; line < to; line++) {
            sum += lineTokens(line);
        }
        return sum;
    }

    /** Where to begin so that as many whole lines before a place are shown as there is room for. */
    private int beginning(int to, int room) {
        int from = to;
        int left = room;
        while (from > 0 && lineTokens(from - 1) <= left) {
            left -= lineTokens(--from);
        }
        return from;
    }

    /** Where to end, after a place. */
    private int ending(int from, int room) {
        int to = from;
        int left = room;
        while (to < measured.count() && lineTokens(to) <= left) {
            left -= lineTokens(to++);
        }
        return to;
    }

    // files

    private void files(FilesTask task) throws IOException {
        List<SampleFormat.SourceFile> files = new ArrayList<>();
        List<Outline> outlines = new ArrayList<>();
        for (TreeFile file : task.files()) {
            String code = shown(file.blob().name());
            files.add(new SampleFormat.SourceFile(Redactor.path(file.path()), code));
            outlines.add(
                    config.get(DatasetKeys.SPAN) == DatasetConfig.FimUnit.NODE
                            ? parsers.outlineWithBlocks(
                                    file.blob(), Language.of(file.path()), code.getBytes(StandardCharsets.UTF_8))
                            : Outline.NOTHING);
        }
        document(
                task,
                files,
                outlines,
                task.files().stream().map(file -> file.blob().name()).toList(),
                "0");
    }

    /** One document, or halves of it if it is too long; {@code part} names which. */
    private void document(
            FilesTask task,
            List<SampleFormat.SourceFile> files,
            List<Outline> outlines,
            List<String> blobs,
            String part) {
        String id = "files-"
                + Hashes.sha256(task.commit() + files.getFirst().path() + blobs + part)
                        .substring(0, 16);
        EncodedSample encoded = encode(Split.TRAIN, pieces(id, files, outlines));
        if (encoded.ids.length <= config.contextLength()) {
            SampleOrigin origin = new SampleOrigin(
                    task.commit(), task.time(), folder(files.getFirst().path()));
            emit(Split.TRAIN, id, "files", origin, blobs, encoded);
        } else if (files.size() > 1) {
            int half = files.size() / 2;
            document(task, files.subList(0, half), outlines.subList(0, half), blobs.subList(0, half), part + "a");
            document(
                    task,
                    files.subList(half, files.size()),
                    outlines.subList(half, files.size()),
                    blobs.subList(half, files.size()),
                    part + "b");
        } else {
            String path = files.getFirst().path();
            List<String> lines = List.of(files.getFirst().code().split("(?<=\n)"));
            int half = lines.size() / 2;
            if (half > 0) {
                half(task, path, lines.subList(0, half), blobs, part + "a");
                half(task, path, lines.subList(half, lines.size()), blobs, part + "b");
            } else {
                tooLong++;
            }
        }
    }

    private void half(FilesTask task, String path, List<String> lines, List<String> blobs, String part) {
        SampleFormat.SourceFile file = new SampleFormat.SourceFile(path, String.join("", lines));
        document(task, List.of(file), List.of(Outline.NOTHING), blobs, part);
    }

    private List<SampleFormat.SampleSpan> pieces(
            String id, List<SampleFormat.SourceFile> files, List<Outline> outlines) {
        SplittableRandom random = random(id);
        boolean metadata = random.nextDouble() < config.get(DatasetKeys.METADATA);
        boolean gaps = format.fillsIn() && random.nextDouble() < config.get(DatasetKeys.FIM_DOCUMENTS);
        List<SampleFormat.SampleSpan> pieces = new ArrayList<>(format.begin(config.name(), metadata));
        for (int i = 0; i < files.size(); i++) {
            SampleFormat.SourceFile file = files.get(i);
            if (gaps && random.nextDouble() < config.get(DatasetKeys.FIM_FILES)) {
                boolean suffixFirst = random.nextDouble() < config.get(DatasetKeys.SPM);
                SampleFormat.FimSplit gap =
                        FimSpans.cut(config.get(DatasetKeys.SPAN), file.code(), outlines.get(i), random);
                pieces.addAll(format.gap(file.path(), gap, metadata, suffixFirst, true));
            } else {
                pieces.addAll(format.file(file, metadata, true));
            }
        }
        pieces.addAll(format.end(true));
        return pieces;
    }

    @Override
    public void close() {
        reader.close();
    }
}
