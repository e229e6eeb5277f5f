package dev.starforge.data.dataset.split;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.data.dataset.dedup.WordHashes;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.data.dataset.sample.SampleFormat;
import dev.starforge.text.tokenizer.Tokenizer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * Keeps what is tested out of what is trained on. A window is a run of words that counts in the loss. First the windows of
 * the tested texts are held; then each training text that has one of them is found. A window that several files have, such
 * as a licence's first sentences, is no leak: dropping every file with a licence would leave nothing. It is boilerplate,
 * and is not tested.
 */
public final class LeakDetector {
    private static final int CHECKED_AT_ONCE = 1024;

    private final int words;
    private final int boilerplateFiles;
    private final LongSet held = new LongSet();
    private final LongSet boilerplate = new LongSet();

    /** Paths in which a held window was seen, as many as matter. */
    private final Map<Long, long[]> seen = new HashMap<>();

    public LeakDetector(int words, int boilerplateFiles) {
        this.words = words;
        this.boilerplateFiles = boilerplateFiles;
    }

    /** A text that is tested. */
    public void hold(String text) {
        WordHashes.of(text).windows(words, held::add);
    }

    /** Looks for held windows in a training text. */
    public void look(String path, String text) {
        long file = WordHashes.of(path).hash();
        WordHashes.of(text).windows(words, window -> {
            if (held.contains(window)) {
                seen.merge(window, new long[] {file}, this::joined);
            }
        });
    }

    private long[] joined(long[] known, long[] more) {
        boolean enough =
                known.length >= boilerplateFiles || Arrays.stream(known).anyMatch(file -> file == more[0]);
        if (enough) {
            return known;
        }
        long[] all = Arrays.copyOf(known, known.length + 1);
        all[known.length] = more[0];
        return all;
    }

    /** After all training texts were looked at: tells boilerplate from leaks. */
    public void decide() {
        seen.forEach((window, files) -> {
            if (files.length >= boilerplateFiles) {
                boilerplate.add(window);
            }
        });
        seen.clear();
    }

    /** Whether a training text has a window that is tested. */
    public boolean leaks(String text) {
        if (held.size() == 0) {
            return false;
        }
        boolean[] found = new boolean[1];
        WordHashes.of(text)
                .windows(words, window -> found[0] |= held.contains(window) && !boilerplate.contains(window));
        return found[0];
    }

    /** Pieces of a tested sample, of which boilerplate does not count. */
    public List<SampleFormat.SampleSpan> withoutBoilerplate(List<SampleFormat.SampleSpan> pieces) {
        if (boilerplate.size() == 0) {
            return pieces;
        }
        List<SampleFormat.SampleSpan> result = new ArrayList<>();
        for (SampleFormat.SampleSpan piece : pieces) {
            if (piece.special() || !piece.counted()) {
                result.add(piece);
            } else {
                cut(piece.text(), result);
            }
        }
        return result;
    }

    private void cut(String text, List<SampleFormat.SampleSpan> result) {
        WordHashes found = WordHashes.of(text);
        boolean[] excluded = new boolean[text.length()];
        int[] first = new int[1];
        found.windows(words, window -> {
            if (boilerplate.contains(window)) {
                Arrays.fill(excluded, found.start(first[0]), found.end(first[0] + words - 1), true);
            }
            first[0]++;
        });
        for (int from = 0; from < text.length(); ) {
            int to = from + 1;
            while (to < text.length() && excluded[to] == excluded[from]) {
                to++;
            }
            result.add(new SampleFormat.SampleSpan(false, text.substring(from, to), !excluded[from]));
            from = to;
        }
    }

    public int boilerplateWindows() {
        return boilerplate.size();
    }

    /** The texts of a document that count, in runs; a special token ends a run. */
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

    /** Holds everything that counts in some documents. */
    public void hold(TokenDocuments documents, Tokenizer tokenizer) {
        for (int d = 0; d < documents.count(); d++) {
            counted(documents.read(d), tokenizer).forEach(this::hold);
        }
    }

    /**
     * The documents that share a window with what is held: the check of what was written, by what was written.
     *
     * @param each is run for every document, by whatever thread
     */
    public List<Integer> shared(TokenDocuments documents, Tokenizer tokenizer, int threads, Runnable each) {
        if (held.size() == 0) {
            return List.of();
        }
        List<Integer> all = IntStream.range(0, documents.count()).boxed().toList();
        List<Integer> shared = new ArrayList<>();
        ParallelMap.run(
                ParallelMap.runs(all, threads, CHECKED_AT_ONCE),
                threads,
                () -> some -> some.stream()
                        .filter(d -> {
                            each.run();
                            return counted(documents.read(d), tokenizer).stream()
                                    .anyMatch(this::leaks);
                        })
                        .toList(),
                shared::addAll);
        return shared;
    }
}
