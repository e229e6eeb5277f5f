package dev.starforge.data.dataset.split;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.data.dataset.dedup.WordHashes;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * Finds training texts that share a window of words with held-out (validation and test) text. Use: add the held-out texts,
 * record the training texts, call {@link #separateBoilerplate}, then ask {@link #leaks}.
 *
 * <p>A window that occurs in several files, such as the first sentences of a license, is boilerplate and not a leak:
 * dropping every file with a license header would leave nothing. Boilerplate is masked in held-out samples instead.
 */
public final class LeakDetector {
    private static final int MAX_BATCH = 1024;

    private final int words;
    private final int boilerplateFiles;
    private final LongSet heldOut = new LongSet();
    private final LongSet boilerplate = new LongSet();

    /** For each held-out window, hashes of the paths of training files that contain it, at most {@code boilerplateFiles}. */
    private final Map<Long, long[]> filesByWindow = new HashMap<>();

    public LeakDetector(int words, int boilerplateFiles) {
        this.words = words;
        this.boilerplateFiles = boilerplateFiles;
    }

    public void addHeldOut(String text) {
        WordHashes.of(text).windows(words, heldOut::add);
    }

    /** Records which held-out windows occur in a training text. */
    public void recordTraining(String path, String text) {
        long file = WordHashes.of(path).hash();
        WordHashes.of(text).windows(words, window -> {
            if (heldOut.contains(window)) {
                filesByWindow.merge(window, new long[] {file}, this::union);
            }
        });
    }

    private long[] union(long[] known, long[] more) {
        boolean enough =
                known.length >= boilerplateFiles || Arrays.stream(known).anyMatch(file -> file == more[0]);
        if (enough) {
            return known;
        }
        long[] all = Arrays.copyOf(known, known.length + 1);
        all[known.length] = more[0];
        return all;
    }

    /** Classifies windows that enough training files contain as boilerplate; call it after all training texts are recorded. */
    public void separateBoilerplate() {
        filesByWindow.forEach((window, files) -> {
            if (files.length >= boilerplateFiles) {
                boilerplate.add(window);
            }
        });
        filesByWindow.clear();
    }

    /** Returns true if a training text contains a held-out window that is not boilerplate. */
    public boolean leaks(String text) {
        if (heldOut.size() == 0) {
            return false;
        }
        boolean[] found = new boolean[1];
        WordHashes.of(text)
                .windows(words, window -> found[0] |= heldOut.contains(window) && !boilerplate.contains(window));
        return found[0];
    }

    /** Returns true if any window of the held-out texts is boilerplate. */
    public boolean hasBoilerplate() {
        return boilerplate.size() > 0;
    }

    /** Marks the characters of a text that are part of a boilerplate window. */
    public boolean[] boilerplateMask(String text) {
        WordHashes found = WordHashes.of(text);
        boolean[] masked = new boolean[text.length()];
        int[] first = new int[1];
        found.windows(words, window -> {
            if (boilerplate.contains(window)) {
                Arrays.fill(masked, found.start(first[0]), found.end(first[0] + words - 1), true);
            }
            first[0]++;
        });
        return masked;
    }

    public int boilerplateWindows() {
        return boilerplate.size();
    }

    /** The decoded runs of tokens that count in the loss; a special token ends a run. */
    public static List<String> counted(TokenDocument document, Tokenizer tokenizer) {
        List<String> runs = new ArrayList<>();
        int[] ids = document.ids();
        for (int from = 0; from < ids.length; ) {
            int to = from;
            while (to < ids.length && document.counted()[to] && !tokenizer.isSpecial(ids[to])) {
                to++;
            }
            if (to > from) {
                runs.add(tokenizer.decode(Arrays.copyOfRange(ids, from, to), false));
            }
            from = Math.max(to, from + 1);
        }
        return runs;
    }

    /** Adds all text of the documents that counts in the loss. */
    public void addHeldOut(TokenDocuments documents, Tokenizer tokenizer) {
        for (int d = 0; d < documents.count(); d++) {
            counted(documents.read(d), tokenizer).forEach(this::addHeldOut);
        }
    }

    /**
     * Returns the documents that share a window with held-out text.
     *
     * @param advance called after every document, from any worker thread
     */
    public List<Integer> leakingDocuments(
            TokenDocuments documents, Tokenizer tokenizer, int threads, Runnable advance) {
        if (heldOut.size() == 0) {
            return List.of();
        }
        List<Integer> all = IntStream.range(0, documents.count()).boxed().toList();
        List<Integer> shared = new ArrayList<>();
        ParallelMap.run(
                ParallelMap.batches(all, threads, MAX_BATCH),
                threads,
                () -> some -> some.stream()
                        .filter(d -> {
                            advance.run();
                            return counted(documents.read(d), tokenizer).stream()
                                    .anyMatch(this::leaks);
                        })
                        .toList(),
                shared::addAll);
        return shared;
    }
}
