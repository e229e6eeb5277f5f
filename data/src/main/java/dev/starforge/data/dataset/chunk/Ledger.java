package dev.starforge.data.dataset.chunk;

import dev.starforge.data.Split;
import dev.starforge.data.dataset.dedup.DuplicateFinder;
import dev.starforge.data.dataset.filter.FileFilter;
import dev.starforge.data.dataset.io.JsonWriter;
import dev.starforge.data.dataset.sample.SampleWorker;
import dev.starforge.data.dataset.split.SplitBoundaries;
import dev.starforge.text.TokenBuffer;
import dev.starforge.text.json.Jackson;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import org.eclipse.jgit.lib.ObjectId;

/**
 * What a build knows of each commit, file and chunk by its number, and what became of them: some bytes each. Their texts
 * are in files, {@code chunks.part} and {@code files.part}, in the same order; once everything is decided they are written
 * out with the decision.
 */
public final class Ledger {
    /** Files of the training snapshot that are like another one of it, and those that leak. */
    public static final String SIMILAR_FILE = "similar_file";

    public static final String LEAKING_FILE = "leaking_file";

    /** Documents of which only the check saw that they leak. */
    public static final String LEAKING_DOCUMENT = "leaking_document";

    /** What no document has room for, not even by itself. */
    public static final String TOO_LONG_SAMPLE = "too_long_sample";

    private static final String CHUNKS = "chunks.part";
    private static final String FILES = "files.part";

    /** Tasks that one thread gets at once: neighbours show the same files. */
    private static final int TASKS = 16;

    private final Path work;
    private final List<ObjectId> commits;
    private final long[] times;
    private final int[] chunksOf;
    private final TokenBuffer chunkUnits = new TokenBuffer();
    private final TokenBuffer chunkCommits = new TokenBuffer();
    private final TokenBuffer chunkFiles = new TokenBuffer();
    private final TokenBuffer fileUnits = new TokenBuffer();
    private final List<String> fileLanguages = new ArrayList<>();
    private final List<String> unitNames = new ArrayList<>();
    private final Map<String, Long> dropped = new TreeMap<>();
    private final Map<String, Long> languages = new TreeMap<>();
    private int[] keeper = new int[0];
    private boolean[] leaks = new boolean[0];

    /** For each chunk the text of an older generation that it repeats, if that is why it goes. */
    private int[] repeated = new int[0];

    private int older;
    private long filesKept;
    private int timed;
    private int taken;

    public Ledger(Path work, List<ObjectId> commits) {
        this.work = work;
        this.commits = commits;
        times = new long[commits.size()];
        chunksOf = new int[commits.size()];
    }

    public OutputStream open(String name) throws IOException {
        return new BufferedOutputStream(Files.newOutputStream(work.resolve(name)), 1 << 20);
    }

    /** The next commit's time. */
    public void time(long seconds) {
        times[timed++] = seconds;
    }

    public List<ObjectId> commits() {
        return commits;
    }

    public long[] times() {
        return times;
    }

    /** The last commit of a split by time, or -1. */
    public int lastTraining(SplitBoundaries split) {
        int last = -1;
        for (int commit = 0; commit < times.length; commit++) {
            last = split.of(times[commit]) == Split.TRAIN ? commit : last;
        }
        return last;
    }

    public Map<String, Long> dropped() {
        return dropped;
    }

    public Map<String, Long> languages() {
        return languages;
    }

    public int files() {
        return fileUnits.size();
    }

    public long filesKept() {
        return filesKept;
    }

    public int chunks() {
        return chunkUnits.size();
    }

    public OutputStream openChunks() throws IOException {
        return open(CHUNKS);
    }

    public OutputStream openFiles() throws IOException {
        return open(FILES);
    }

    /** A training chunk of an older generation; all of them come before those of this one. */
    public void older(CodeChunk chunk, DuplicateFinder duplicates, int leastWords) {
        ChunkWorker.ChunkFingerprint compared = ChunkWorker.compared(chunk, leastWords);
        duplicates.add(1, compared.hash(), compared.grams());
        unitNames.add(chunk.id());
        older++;
    }

    /** The files and chunks of the next commit, whose lines have been written. */
    public void take(ChunkWorker.CommitChunks result, DuplicateFinder duplicates) {
        int firstFile = fileUnits.size();
        for (ChunkWorker.FileFact file : result.files()) {
            boolean compared = file.grams().length > 0;
            if (compared) {
                unitNames.add(file.path() + "@" + result.commit().substring(0, 12));
            }
            fileUnits.add(compared ? duplicates.add(0, file.hash(), file.grams()) + 1 : 0);
            file.reason().ifPresent(reason -> drop(reason.label(), 1));
            filesKept += file.reason().isEmpty() ? 1 : 0;
            fileLanguages.add(file.language());
        }
        for (ChunkWorker.ChunkFact fact : result.chunks()) {
            unitNames.add(fact.id());
            chunkUnits.add(duplicates.add(1, fact.hash(), fact.grams()));
            chunkCommits.add(taken);
            chunkFiles.add(fact.file() < 0 ? 0 : firstFile + fact.file() + 1);
            chunksOf[taken]++;
        }
        taken++;
    }

    public void drop(String reason, long count) {
        if (count > 0) {
            dropped.merge(reason, count, Long::sum);
        }
    }

    /** For each text that was compared, the one that is kept in its place. */
    public void duplicates(int[] found) {
        keeper = found;
        leaks = new boolean[chunkUnits.size()];
        repeated = new int[chunkUnits.size()];
        Arrays.fill(repeated, DuplicateFinder.KEPT);
    }

    /**
     * Takes off the training chunks that repeat what an older generation trains on, which is not touched. One that is
     * tested stays: then it is the old one that is no longer handed out.
     */
    public void dropRepeated(SplitBoundaries split) {
        Map<Integer, Integer> oldOf = new HashMap<>();
        for (int old = 0; old < older; old++) {
            oldOf.put(keeper[old], old);
        }
        for (int chunk = 0; chunk < repeated.length; chunk++) {
            if (split.of(times[chunkCommits.get(chunk)]) == Split.TRAIN) {
                repeated[chunk] = oldOf.getOrDefault(chunkUnits.get(chunk), DuplicateFinder.KEPT);
            }
        }
    }

    private boolean duplicateFile(int chunk) {
        int file = chunkFiles.get(chunk) - 1;
        return file >= 0 && fileUnits.get(file) > 0 && keeper[fileUnits.get(file) - 1] != DuplicateFinder.KEPT;
    }

    private boolean distinct(int chunk) {
        return keeper[chunkUnits.get(chunk)] == DuplicateFinder.KEPT
                && repeated[chunk] == DuplicateFinder.KEPT
                && !duplicateFile(chunk);
    }

    public void leaks(int chunk) {
        leaks[chunk] = true;
    }

    public int leaking() {
        long count = dropped.getOrDefault(LEAKING_FILE, 0L) + dropped.getOrDefault(LEAKING_DOCUMENT, 0L);
        for (boolean leak : leaks) {
            count += leak ? 1 : 0;
        }
        return Math.toIntExact(count);
    }

    public long chunksKept() {
        long kept = 0;
        for (int chunk = 0; chunk < chunkUnits.size(); chunk++) {
            kept += distinct(chunk) && !leaks[chunk] ? 1 : 0;
        }
        return kept;
    }

    /** Which commits still have a chunk. */
    public boolean[] usefulCommits() {
        boolean[] useful = new boolean[commits.size()];
        for (int chunk = 0; chunk < chunkUnits.size(); chunk++) {
            useful[chunkCommits.get(chunk)] |= distinct(chunk);
        }
        return useful;
    }

    public interface EachChunk {
        void accept(int number, CodeChunk chunk);
    }

    /**
     * Every chunk that is no duplicate, of training commits or of the others.
     *
     * @param passed is run for every chunk of any kind
     */
    public void each(SplitBoundaries split, boolean training, EachChunk each, Runnable passed) throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(work.resolve(CHUNKS))) {
            for (int chunk = 0; chunk < chunkUnits.size(); chunk++) {
                String line = lines.readLine();
                boolean wanted = split.of(times[chunkCommits.get(chunk)]) == Split.TRAIN == training;
                if (wanted && distinct(chunk)) {
                    each.accept(chunk, CodeChunk.read(Jackson.JSON.readTree(line + "}")));
                }
                passed.run();
            }
        }
    }

    /** Writes {@code chunks.jsonl}: each chunk with the split it is in, or why it is in none. */
    public void finishChunks(SplitBoundaries split) throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(work.resolve(CHUNKS));
                OutputStream out = open("chunks.jsonl")) {
            for (int chunk = 0; chunk < chunkUnits.size(); chunk++) {
                JsonWriter end = new JsonWriter().continueObject();
                int same = keeper[chunkUnits.get(chunk)];
                if (same != DuplicateFinder.KEPT) {
                    end.put("dropped", "duplicate").put("duplicate_of", unitNames.get(same));
                    drop("duplicate_chunk", 1);
                } else if (repeated[chunk] != DuplicateFinder.KEPT) {
                    end.put("dropped", "repeated").put("duplicate_of", unitNames.get(repeated[chunk]));
                    drop("repeated_chunk", 1);
                } else if (duplicateFile(chunk)) {
                    end.put("dropped", "duplicate_file");
                    drop("chunk_of_duplicate_file", 1);
                } else if (leaks[chunk]) {
                    end.put("dropped", "leak");
                    drop("leaking_chunk", 1);
                } else {
                    end.put("split", split.of(times[chunkCommits.get(chunk)]).label());
                }
                end.end().newline();
                out.write(lines.readLine().getBytes(StandardCharsets.UTF_8));
                out.write(end.bytes().array(), 0, end.bytes().size());
            }
        }
    }

    /** Writes {@code files.jsonl}. */
    public void finishFiles() throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(work.resolve(FILES));
                OutputStream out = open("files.jsonl")) {
            for (int file = 0; file < fileUnits.size(); file++) {
                String line = lines.readLine();
                int unit = fileUnits.get(file) - 1;
                JsonWriter end = new JsonWriter().continueObject();
                boolean duplicate = unit >= 0 && keeper[unit] != DuplicateFinder.KEPT;
                if (duplicate) {
                    end.put("reason", FileFilter.FilterReason.DUPLICATE.label());
                    end.put("duplicate_of", unitNames.get(keeper[unit]));
                    drop(FileFilter.FilterReason.DUPLICATE.label(), 1);
                    filesKept--;
                }
                boolean kept = !duplicate && !line.contains(",\"reason\":\"");
                if (kept) {
                    languages.merge(fileLanguages.get(file), 1L, Long::sum);
                }
                end.put("kept", kept).end().newline();
                out.write(line.getBytes(StandardCharsets.UTF_8));
                out.write(end.bytes().array(), 0, end.bytes().size());
            }
        }
    }

    public BufferedReader readChunks() throws IOException {
        return Files.newBufferedReader(work.resolve(CHUNKS));
    }

    /** What samples are made of, some at a time: first the files, then the commits with the chunks that are left. */
    public Iterable<List<SampleWorker.SampleTask>> tasks(
            List<SampleWorker.FilesTask> files, BufferedReader lines, SplitBoundaries split) {
        return () -> new Tasks(files.iterator(), lines, split);
    }

    private final class Tasks implements Iterator<List<SampleWorker.SampleTask>> {
        private final Iterator<SampleWorker.FilesTask> files;
        private final BufferedReader lines;
        private final SplitBoundaries split;
        private int commit;
        private int chunk;

        Tasks(Iterator<SampleWorker.FilesTask> files, BufferedReader lines, SplitBoundaries split) {
            this.files = files;
            this.lines = lines;
            this.split = split;
        }

        @Override
        public boolean hasNext() {
            return files.hasNext() || commit < commits.size();
        }

        @Override
        public List<SampleWorker.SampleTask> next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            List<SampleWorker.SampleTask> some = new ArrayList<>(TASKS);
            while (hasNext() && some.size() < TASKS) {
                some.add(files.hasNext() ? files.next() : commit());
            }
            return some;
        }

        private SampleWorker.SampleTask commit() {
            List<String> kept = new ArrayList<>();
            try {
                for (int i = 0; i < chunksOf[commit]; i++, chunk++) {
                    String line = lines.readLine();
                    if (distinct(chunk) && !leaks[chunk]) {
                        kept.add(line + "}");
                    }
                }
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
            return new SampleWorker.CommitTask(split.of(times[commit]), commits.get(commit++), kept);
        }
    }
}
