package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import dev.starforge.data.Hashes;
import dev.starforge.data.Jackson;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.TokenBuffer;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.git.GitHistory;
import dev.starforge.data.git.Lines;
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
final class SampleStage implements Ordered.Worker<List<SampleStage.Task>, SampleStage.Run> {
    private static final Pattern HUNK = Pattern.compile("(?dm)^@@ -(\\d+),(\\d+) \\+(\\d+),(\\d+) @@");
    /** What the names of chunks' documents begin with. */
    static final String CHUNK = "chunk-";

    private static final int LONGEST_BODY = 2000;
    private static final double MESSAGE_SHARE = 0.75;
    private static final double PREFIX_SHARE = 0.6;
    private static final double CONTEXT_SHARE = 0.25;
    private static final int ROOM_FOR_MARKS = 32;

    /** What documents are made of. */
    sealed interface Task {}

    /**
     * The chunks of a commit that were kept.
     *
     * @param chunks lines of JSON
     */
    record CommitTask(Split split, ObjectId commit, List<String> chunks) implements Task {}

    /** Files of a tree that go into one document, if they fit. */
    record FilesTask(String commit, long time, List<TreeFile> files) implements Task {}

    /** A file by its place and content. */
    record TreeFile(String path, ObjectId blob) {}

    /**
     * A document and what it came from.
     *
     * @param blobs the contents it shows something of
     */
    record Sample(Split split, TokenDocument document, SampleOrigin origin, List<String> blobs, String kind) {}

    /** The documents of some tasks, and how much no document had room for. */
    record Run(List<Sample> samples, int tooLong) {}

    private final GitHistory.Reader reader;
    private final DatasetConfig config;
    private final SampleFormat format;
    private final ParserPool parsers;
    private final Leakage leakage;
    private final ShownBlobs shownBlobs;
    private final Runnable each;
    private List<Sample> samples = new ArrayList<>();
    private int tooLong;

    private String measuredBlob = "";
    private Lines measured = Lines.of(new byte[0]);
    private int[] lineTokens = new int[0];

    /** @param each is run after every task, by whatever thread */
    SampleStage(
            GitHistory.Reader reader,
            DatasetConfig config,
            SampleFormat format,
            ParserPool parsers,
            Leakage leakage,
            Runnable each) {
        this.reader = reader;
        this.config = config;
        this.format = format;
        this.parsers = parsers;
        this.leakage = leakage;
        shownBlobs = new ShownBlobs(reader.blobs());
        this.each = each;
    }

    @Override
    public Run apply(List<Task> tasks) {
        samples = new ArrayList<>();
        tooLong = 0;
        for (Task task : tasks) {
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
        return new Run(samples, tooLong);
    }

    private void samples(Commit commit) throws IOException {
        if (config.get(DatasetKeys.COMMITS)) {
            int first = samples.size();
            commit(commit);
            drawSome(samples.subList(first, samples.size()), commit.commit());
        }
        if (config.get(DatasetKeys.CHUNKS)) {
            for (Chunk chunk : commit.chunks()) {
                chunk(commit, chunk);
            }
        }
    }

    /** Leaves so many documents as a commit may have, in their order. */
    private void drawSome(List<Sample> documents, String commit) {
        int most = config.get(DatasetKeys.COMMIT_DOCUMENTS);
        SplittableRandom random = random(commit + " documents");
        while (most > 0 && documents.size() > most) {
            documents.remove(random.nextInt(documents.size()));
        }
    }

    private record Commit(Split split, String commit, long time, String subject, String body, List<Chunk> chunks) {}

    private Commit read(CommitTask task) {
        RevCommit commit = reader.commit(task.commit());
        String message = HistoryStage.message(commit, config, new Secrets());
        int end = message.indexOf('\n');
        return new Commit(
                task.split(),
                commit.name(),
                GitHistory.time(commit),
                end < 0 ? message : message.substring(0, end),
                end < 0 ? "" : message.substring(end).strip(),
                task.chunks().stream()
                        .map(line -> Chunk.read(Jackson.JSON.readTree(line)))
                        .toList());
    }

    private SplittableRandom random(String id) {
        return new SplittableRandom(Words.mix(config.seed()) ^ Words.of(id).hash());
    }

    private int tokens(List<SampleFormat.Piece> pieces) {
        TokenBuffer ids = new TokenBuffer();
        pieces.forEach(piece -> format.encode(piece, ids));
        return ids.size();
    }

    private int tokens(String text) {
        return tokens(List.of(new SampleFormat.Piece(false, text, false)));
    }

    /** The ids of pieces, and which count. */
    private record Encoded(int[] ids, boolean[] counted) {}

    /** The pieces as they are written: of what is tested, boilerplate does not count. */
    private List<SampleFormat.Piece> written(Split split, List<SampleFormat.Piece> pieces) {
        return split == Split.TRAIN ? pieces : leakage.withoutBoilerplate(pieces);
    }

    private Encoded encode(Split split, List<SampleFormat.Piece> all) {
        List<SampleFormat.Piece> pieces = written(split, all);
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
        return new Encoded(ids.toArray(), counted);
    }

    private void emit(Split split, String id, String kind, SampleOrigin origin, List<String> blobs, Encoded encoded) {
        samples.add(new Sample(split, new TokenDocument(id, encoded.ids, encoded.counted), origin, blobs, kind));
    }

    private static String folder(String path) {
        return path.substring(0, Math.max(0, path.lastIndexOf('/')));
    }

    private String shown(String blob) throws IOException {
        return new String(shownBlobs.read(ObjectId.fromString(blob)).orElse(new byte[0]), StandardCharsets.UTF_8);
    }

    // commits

    private void commit(Commit task) throws IOException {
        Map<String, List<Chunk>> byPath = new LinkedHashMap<>();
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
        Sizes sizes = new Sizes(task, body, head, config.contextLength() - head - 1);
        List<SampleFormat.ChangedFile> open = new ArrayList<>();
        List<String> blobs = new ArrayList<>();
        int used = 0;
        int number = 0;
        for (Map.Entry<String, List<Chunk>> entry : byPath.entrySet()) {
            for (Sized file : fitting(sizes, entry.getKey(), entry.getValue())) {
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
    private record Sized(SampleFormat.ChangedFile file, int tokens) {}

    /**
     * What a commit's files must fit into.
     *
     * @param head tokens of the message, before any file
     * @param room for files
     */
    private record Sizes(Commit task, String body, int head, int room) {}

    private Sized sized(Sizes sizes, SampleFormat.ChangedFile file) {
        Commit task = sizes.task;
        List<SampleFormat.Piece> alone = format.commit(config.name(), task.subject(), sizes.body, List.of(file));
        return new Sized(file, tokens(written(task.split(), alone)) - sizes.head);
    }

    private void emitCommit(
            Commit task, String body, List<SampleFormat.ChangedFile> files, List<String> blobs, int number) {
        List<SampleFormat.Piece> pieces = new ArrayList<>(format.commit(config.name(), task.subject(), body, files));
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
    private List<Sized> fitting(Sizes sizes, String path, List<Chunk> chunks) throws IOException {
        SplittableRandom random = random(sizes.task.commit() + path);
        List<String> hunks = new ArrayList<>();
        chunks.forEach(chunk -> hunks.addAll(List.of(chunk.patch().split("(?dm)(?=^@@ )"))));
        String base = base(chunks, random);
        // no token spans two lines with words, so that a file of 20,000 lines need not be encoded to see that it is too
        // long
        if (base.lines().filter(line -> !line.isBlank()).limit(sizes.room + 1L).count() <= sizes.room) {
            Sized whole = sized(sizes, new SampleFormat.ChangedFile(path, base, hunks));
            if (whole.tokens <= sizes.room) {
                return List.of(whole);
            }
        }
        List<Sized> fitting = new ArrayList<>();
        for (String hunk : hunks) {
            halves(sizes, path, hunk, fitting);
        }
        return fitting;
    }

    private void halves(Sizes sizes, String path, String hunk, List<Sized> fitting) {
        Sized file = sized(sizes, new SampleFormat.ChangedFile(path, "", List.of(hunk)));
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
    private String base(List<Chunk> chunks, SplittableRandom random) throws IOException {
        String old = shown(chunks.getFirst().oldBlob());
        boolean whole = random.nextDouble() < config.get(DatasetKeys.WHOLE_BASE);
        int around = random.nextInt(config.get(DatasetKeys.BASE_LINES) + 1);
        if (whole || old.isEmpty()) {
            return old;
        }
        int from = Integer.MAX_VALUE;
        int to = 0;
        for (Chunk chunk : chunks) {
            Matcher hunk = HUNK.matcher(chunk.patch());
            while (hunk.find()) {
                int count = Integer.parseInt(hunk.group(2));
                int start = Integer.parseInt(hunk.group(1)) - Math.min(1, count);
                from = Math.min(from, start);
                to = Math.max(to, start + count);
            }
        }
        Lines lines = Lines.of(old.getBytes(StandardCharsets.UTF_8));
        return Chunker.text(lines, Math.max(0, from - around), Math.min(lines.count(), to + around));
    }

    // changed functions, to be filled in

    private void chunk(Commit task, Chunk chunk) throws IOException {
        boolean code = Language.of(chunk.path()).kind() == Language.Kind.CODE;
        if (!format.fillsIn() || !code || chunk.changed().isEmpty()) {
            return;
        }
        Chunk.Range longest = chunk.changed().stream()
                .max(Comparator.comparingInt((Chunk.Range range) -> range.to() - range.from())
                        .thenComparing(
                                Comparator.comparingInt(Chunk.Range::from).reversed()))
                .orElseThrow();
        measure(chunk.blob());
        Lines lines = measured;
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
        List<SampleFormat.Piece> before = context(chunk, (int) (CONTEXT_SHARE * room));
        room -= tokens(before) + tokens(chunk.path() + "\n");
        Encoded encoded;
        int over = 0;
        do {
            room -= over;
            int after = ending(end, (int) ((1 - PREFIX_SHARE) * room));
            int from = beginning(longest.from(), room - sum(end, after));
            List<SampleFormat.Piece> pieces = new ArrayList<>(before);
            SampleFormat.Gap gap = new SampleFormat.Gap(
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
    private List<SampleFormat.Piece> context(Chunk chunk, int room) {
        Map<String, StringBuilder> byPath = new LinkedHashMap<>();
        chunk.context()
                .forEach(signature -> byPath.computeIfAbsent(signature.path(), path -> new StringBuilder())
                        .append(signature.text())
                        .append('\n'));
        List<SampleFormat.Piece> pieces = new ArrayList<>();
        int used = 0;
        for (Map.Entry<String, StringBuilder> entry : byPath.entrySet()) {
            List<SampleFormat.Piece> file = format.file(
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
            measured = Lines.of(shown(blob).getBytes(StandardCharsets.UTF_8));
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
            files.add(new SampleFormat.SourceFile(Secrets.path(file.path()), code));
            outlines.add(
                    config.get(DatasetKeys.SPAN) == DatasetConfig.Span.NODE
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
        Encoded encoded = encode(Split.TRAIN, pieces(id, files, outlines));
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

    private List<SampleFormat.Piece> pieces(String id, List<SampleFormat.SourceFile> files, List<Outline> outlines) {
        SplittableRandom random = random(id);
        boolean metadata = random.nextDouble() < config.get(DatasetKeys.METADATA);
        boolean gaps = format.fillsIn() && random.nextDouble() < config.get(DatasetKeys.FIM_DOCUMENTS);
        List<SampleFormat.Piece> pieces = new ArrayList<>(format.begin(config.name(), metadata));
        for (int i = 0; i < files.size(); i++) {
            SampleFormat.SourceFile file = files.get(i);
            if (gaps && random.nextDouble() < config.get(DatasetKeys.FIM_FILES)) {
                boolean suffixFirst = random.nextDouble() < config.get(DatasetKeys.SPM);
                SampleFormat.Gap gap = Gaps.cut(config.get(DatasetKeys.SPAN), file.code(), outlines.get(i), random);
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
