package dev.starforge.train;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.tensor.Philox;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * Documents as a run reads them: cut into windows of the context, shuffled anew in every epoch, some turned for filling
 * in, and packed into sequences. All of it is a function of the seed and the epoch, so the place in the data is two numbers.
 * Where a document is cut, the last token of one window is the first of the next, so that every token is predicted once.
 */
final class Corpus {
    private static final int SHUFFLE = 0x53484646;
    private static final int TURN = 0x5455524e;

    private final TokenDocuments documents;
    private final Settings settings;
    private final int[] document;
    private final int[] begin;
    private final int[] length;
    private final float[] weight;
    private final BitSet turnable = new BitSet();

    /**
     * @param fim none when nothing is to be turned
     */
    record Settings(
            int context,
            boolean packing,
            long seed,
            Optional<FimTokens> fim,
            double fimRate,
            double spmRate,
            boolean shortFirst) {
        /** In order, nothing turned: for evaluation. */
        static Settings plain(int context) {
            return new Settings(context, false, 0, Optional.empty(), 0, 0, false);
        }
    }

    /** What the loss weighs a document with; 0 leaves it out. */
    interface Weights {
        double of(int document);
    }

    /** Reads every document once, to know its windows and to see that its ids are of this vocabulary. */
    Corpus(TokenDocuments documents, int vocabulary, Weights weights, Settings settings) {
        this.documents = documents;
        this.settings = settings;
        List<int[]> windows = new ArrayList<>();
        List<Float> each = new ArrayList<>();
        for (int d = 0; d < documents.count(); d++) {
            double w = weights.of(d);
            TokenDocument read = documents.read(d);
            for (int i = 0; i < read.ids().length; i++) {
                if (read.ids()[i] < 0 || read.ids()[i] >= vocabulary) {
                    throw new ConfigException("document " + read.id() + ": token " + i + " is " + read.ids()[i]
                            + ", but the model has " + vocabulary + " tokens");
                }
            }
            int size = read.ids().length;
            for (int from = 0; w > 0 && (from == 0 || from < size - 1); from += settings.context - 1) {
                int to = Math.min(size, from + settings.context);
                if (counts(read, from, to)) {
                    boolean room = size + FimTokens.EXTRA <= settings.context;
                    if (room
                            && settings.fim.isPresent()
                            && whole(read)
                            && settings.fim.get().applies(read.ids())) {
                        turnable.set(windows.size());
                    }
                    windows.add(new int[] {d, from, to - from});
                    each.add((float) w);
                }
            }
        }
        document = windows.stream().mapToInt(window -> window[0]).toArray();
        begin = windows.stream().mapToInt(window -> window[1]).toArray();
        length = windows.stream().mapToInt(window -> window[2]).toArray();
        weight = new float[each.size()];
        for (int i = 0; i < weight.length; i++) {
            weight[i] = each.get(i);
        }
    }

    private static boolean counts(TokenDocument read, int from, int to) {
        for (int i = from + 1; i < to; i++) {
            if (read.counted()[i]) {
                return true;
            }
        }
        return false;
    }

    private static boolean whole(TokenDocument read) {
        for (boolean counted : read.counted()) {
            if (!counted) {
                return false;
            }
        }
        return true;
    }

    /** Pieces of documents that fit the context. */
    int windows() {
        return length.length;
    }

    /** Tokens of one pass, without markers. */
    long tokens() {
        return Arrays.stream(length).asLongStream().sum();
    }

    /** The sequences of an epoch, each a list of windows, in the order they are seen. */
    List<List<Integer>> epoch(int epoch) {
        int[] order = shuffled(windows(), epoch, 0);
        int[] lengths = Arrays.stream(order)
                .map(window -> length[window] + (turns(window, epoch) ? FimTokens.EXTRA : 0))
                .toArray();
        List<List<Integer>> packed = settings.packing
                ? Packing.pack(lengths, settings.context)
                : IntStream.range(0, order.length).mapToObj(List::of).toList();
        List<List<Integer>> sequences = new ArrayList<>();
        for (int bin : shuffled(packed.size(), epoch, 1)) {
            sequences.add(packed.get(bin).stream().map(i -> order[i]).toList());
        }
        if (settings.shortFirst && epoch == 0) {
            sequences.sort(Comparator.comparingDouble(sequence -> sequence.stream()
                    .mapToInt(window -> length[window])
                    .average()
                    .orElse(0)));
        }
        return sequences;
    }

    /** In order when the seed is 0 and nothing is packed or turned; otherwise Fisher and Yates with numbers of this epoch. */
    private int[] shuffled(int count, int epoch, int stage) {
        int[] order = IntStream.range(0, count).toArray();
        if (settings.equals(Settings.plain(settings.context))) {
            return order;
        }
        for (int i = count - 1; i > 0; i--) {
            int word = Philox.words(i, epoch, SHUFFLE, stage, (int) settings.seed, (int) (settings.seed >>> 32))[0];
            int j = (int) ((word & 0xffffffffL) * (i + 1) >>> 32);
            int other = order[i];
            order[i] = order[j];
            order[j] = other;
        }
        return order;
    }

    private boolean turns(int window, int epoch) {
        return turnable.get(window) && draw(window, epoch, 0) < settings.fimRate;
    }

    private float draw(int window, int epoch, int stage) {
        int[] words = Philox.words(window, epoch, TURN, stage, (int) settings.seed, (int) (settings.seed >>> 32));
        return (words[0] >>> 8) * 0x1p-24f;
    }

    /** The examples of a sequence. */
    List<Example> read(List<Integer> sequence, int epoch) {
        List<Example> examples = new ArrayList<>();
        for (int window : sequence) {
            TokenDocument read = documents.read(document[window]);
            int[] ids = Arrays.copyOfRange(read.ids(), begin[window], begin[window] + length[window]);
            int[] labels = ids.clone();
            for (int i = 0; i < labels.length; i++) {
                if (!read.counted()[begin[window] + i]) {
                    labels[i] = Example.IGNORED;
                }
            }
            int sample = epoch * windows() + window;
            if (turns(window, epoch)) {
                boolean suffixFirst = draw(window, epoch, 1) < settings.spmRate;
                ids = settings.fim.orElseThrow().turn(ids, suffixFirst, settings.seed, sample);
                labels = ids;
            }
            examples.add(new Example(ids, labels, sample, weight[window]));
        }
        return examples;
    }
}
