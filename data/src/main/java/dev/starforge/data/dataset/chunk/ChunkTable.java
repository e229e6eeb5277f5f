package dev.starforge.data.dataset.chunk;

import dev.starforge.data.dataset.dedup.ComparedTexts;
import dev.starforge.data.dataset.history.CommitTable;
import dev.starforge.data.dataset.io.CompressedLines;
import dev.starforge.data.dataset.io.JsonWriter;
import dev.starforge.data.dataset.split.SplitBoundaries;
import dev.starforge.text.TokenIdList;
import dev.starforge.text.json.Jackson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The chunks of a build, a few bytes each: the compared text, the commit and the file. Their JSON lines wait in
 * {@code chunks.part} in the same order; {@link #finish} writes {@code chunks.jsonl.gz} with the decision on each chunk.
 */
public final class ChunkTable {
    public static final String FILE = "chunks.jsonl.gz";

    private static final String PART = "chunks.part";

    private final Path work;
    private final CommitTable commits;
    private final FileTable files;
    private final ComparedTexts texts;
    private final DropReasons dropped;
    private final TokenIdList textOf = new TokenIdList();
    private final TokenIdList commitOf = new TokenIdList();

    /** For each chunk 1 + its file, or 0 if the commit deleted the file. */
    private final TokenIdList fileOf = new TokenIdList();

    private final int[] chunksPerCommit;
    private final BitSet leaking = new BitSet();

    /** For each training chunk that repeats one of an older generation, the text of the older one. */
    private final Map<Integer, Integer> repeats = new HashMap<>();

    private int olderChunks;
    private int addedCommits;

    public ChunkTable(Path work, CommitTable commits, FileTable files, ComparedTexts texts, DropReasons dropped) {
        this.work = work;
        this.commits = commits;
        this.files = files;
        this.texts = texts;
        this.dropped = dropped;
        chunksPerCommit = new int[commits.count()];
    }

    public OutputStream openLines() throws IOException {
        return CompressedLines.create(work.resolve(PART));
    }

    public int count() {
        return textOf.size();
    }

    /** Adds a training chunk of an older generation; all of these come before the chunks of this one. */
    public void addOlder(CodeChunk chunk, int minWords) {
        ChunkWorker.ChunkFingerprint fingerprint = ChunkWorker.fingerprint(chunk, minWords);
        texts.add(ComparedTexts.TextKind.CHUNK, chunk.id(), fingerprint.hash(), fingerprint.grams());
        olderChunks++;
    }

    /**
     * Adds the chunks of the next commit.
     *
     * @param firstFile number of the commit's first file in the {@link FileTable}
     */
    public void add(ChunkWorker.CommitChunks commit, int firstFile) {
        for (ChunkWorker.ChunkFact chunk : commit.chunks()) {
            textOf.add(texts.add(ComparedTexts.TextKind.CHUNK, chunk.id(), chunk.hash(), chunk.grams()));
            commitOf.add(addedCommits);
            fileOf.add(chunk.file() < 0 ? 0 : firstFile + chunk.file() + 1);
            chunksPerCommit[addedCommits]++;
        }
        addedCommits++;
    }

    /**
     * Drops the training chunks that repeat a training chunk of an older generation, which is never changed. A held-out
     * chunk stays; the older document is excluded instead, by a tombstone.
     */
    public void dropRepeated(SplitBoundaries boundaries) {
        Map<Integer, Integer> olderByKeeper = new HashMap<>();
        for (int older = 0; older < olderChunks; older++) {
            olderByKeeper.put(texts.keeper(older), older);
        }
        for (int chunk = 0; chunk < textOf.size(); chunk++) {
            Integer older = olderByKeeper.get(textOf.get(chunk));
            if (older != null && commits.isTraining(commitOf.get(chunk), boundaries)) {
                repeats.put(chunk, older);
            }
        }
    }

    private boolean isOfDuplicateFile(int chunk) {
        int file = fileOf.get(chunk) - 1;
        return file >= 0 && files.isDuplicate(file);
    }

    private boolean isDistinct(int chunk) {
        return !texts.isDuplicate(textOf.get(chunk)) && !repeats.containsKey(chunk) && !isOfDuplicateFile(chunk);
    }

    private boolean isKept(int chunk) {
        return isDistinct(chunk) && !leaking.get(chunk);
    }

    public void markLeaking(int chunk) {
        leaking.set(chunk);
    }

    public int leaking() {
        return leaking.cardinality();
    }

    public long kept() {
        long kept = 0;
        for (int chunk = 0; chunk < textOf.size(); chunk++) {
            kept += isKept(chunk) ? 1 : 0;
        }
        return kept;
    }

    /** For each commit whether it has a distinct chunk. */
    public boolean[] commitsWithChunks() {
        boolean[] useful = new boolean[commits.count()];
        for (int chunk = 0; chunk < textOf.size(); chunk++) {
            useful[commitOf.get(chunk)] |= isDistinct(chunk);
        }
        return useful;
    }

    /** Receives chunks with their numbers. */
    public interface ChunkVisitor {
        void accept(int number, CodeChunk chunk);
    }

    /**
     * Visits every distinct chunk of the training commits, or of the others.
     *
     * @param advance called for every chunk, visited or not
     */
    public void each(SplitBoundaries boundaries, boolean training, ChunkVisitor visitor, Runnable advance)
            throws IOException {
        try (BufferedReader lines = CompressedLines.open(work.resolve(PART))) {
            for (int chunk = 0; chunk < textOf.size(); chunk++) {
                String line = lines.readLine();
                if (commits.isTraining(commitOf.get(chunk), boundaries) == training && isDistinct(chunk)) {
                    visitor.accept(chunk, CodeChunk.read(Jackson.JSON.readTree(line + "}")));
                }
                advance.run();
            }
        }
    }

    /** Writes {@code chunks.jsonl.gz}: each chunk with its split, or the reason why it is dropped. */
    public void finish(SplitBoundaries boundaries) throws IOException {
        try (BufferedReader lines = CompressedLines.open(work.resolve(PART));
                OutputStream out = CompressedLines.create(work.resolve(FILE))) {
            for (int chunk = 0; chunk < textOf.size(); chunk++) {
                JsonWriter end = new JsonWriter().continueObject();
                writeDecision(end, chunk, boundaries);
                end.end().newline();
                out.write(lines.readLine().getBytes(StandardCharsets.UTF_8));
                out.write(end.bytes().array(), 0, end.bytes().size());
            }
        }
    }

    private void writeDecision(JsonWriter json, int chunk, SplitBoundaries boundaries) {
        int text = textOf.get(chunk);
        Integer older = repeats.get(chunk);
        if (texts.isDuplicate(text)) {
            json.put("dropped", "duplicate").put("duplicate_of", texts.name(texts.keeper(text)));
            dropped.add("duplicate_chunk", 1);
        } else if (older != null) {
            json.put("dropped", "repeated").put("duplicate_of", texts.name(older));
            dropped.add("repeated_chunk", 1);
        } else if (isOfDuplicateFile(chunk)) {
            json.put("dropped", "duplicate_file");
            dropped.add("chunk_of_duplicate_file", 1);
        } else if (leaking.get(chunk)) {
            json.put("dropped", "leak");
            dropped.add("leaking_chunk", 1);
        } else {
            json.put("split", commits.split(commitOf.get(chunk), boundaries).label());
        }
    }

    /** Opens a sequential reader of the kept chunks, commit by commit. */
    public KeptChunks openKept() throws IOException {
        return new KeptChunks(CompressedLines.open(work.resolve(PART)));
    }

    /** Reads the JSON of the kept chunks, commit by commit. */
    public final class KeptChunks implements AutoCloseable {
        private final BufferedReader lines;
        private int commit;
        private int chunk;

        private KeptChunks(BufferedReader lines) {
            this.lines = lines;
        }

        /** The kept chunks of the next commit, one JSON object each. */
        public List<String> next() throws IOException {
            List<String> kept = new ArrayList<>();
            for (int i = 0; i < chunksPerCommit[commit]; i++, chunk++) {
                String line = lines.readLine();
                if (isKept(chunk)) {
                    kept.add(line + "}");
                }
            }
            commit++;
            return kept;
        }

        @Override
        public void close() throws IOException {
            lines.close();
        }
    }
}
