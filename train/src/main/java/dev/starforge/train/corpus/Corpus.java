package dev.starforge.train.corpus;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.tensor.Philox;
import dev.starforge.text.config.ConfigException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * Turns documents into training sequences. Documents that fit the context are used whole; longer ones are divided into
 * windows or dropped. Documents are shuffled in every epoch, some are transformed for fill-in-the-middle, and several
 * are packed into a sequence. Everything is a function of the seed and the epoch, so two numbers describe the position
 * in the data.
 *
 * <p>Only plain documents are divided: those where every token counts in the loss and that have no fill-in-the-middle
 * tokens. The last token of one window is the first of the next, so every token is predicted once. In other documents
 * the tokens that count depend on the start of the document, for example the middle on its prefix and suffix. Such a
 * document is dropped if it does not fit, and counted.
 */
public final class Corpus {
    private static final int SHUFFLE = 0x53484646;
    private static final int FIM = 0x5455524e;
    private static final int SAMPLE = 0x53414d50;

    private final TokenDocuments documents;
    private final Settings settings;
    private final int[] document;
    private final int[] begin;
    private final int[] length;
    private final int[] targets;
    private final float[] weight;
    private final BitSet transformable = new BitSet();
    private final DataFacts facts;

    /**
     * @param markers the fill-in-the-middle tokens of the vocabulary, if it has them
     * @param ordered whether every epoch has the order of the documents
     */
    public record Settings(
            int context,
            boolean packing,
            long seed,
            Optional<FimTokens> markers,
            double fimRate,
            double spmRate,
            boolean shortFirst,
            boolean ordered) {
        /** Settings for evaluation: in order, without packing and fill-in-the-middle. */
        public static Settings plain(int context, Optional<FimTokens> markers) {
            return new Settings(context, false, 0, markers, 0, 0, false, true);
        }
    }

    /** The loss weight of each document; 0 drops it. */
    public interface Weights {
        double of(int document);
    }

    /** A window of a document, or the whole document if it fits. */
    private record Window(int document, int begin, int length, int targets, float weight) {}

    /** Reads every document once to compute its windows and to check its token ids against the vocabulary size. */
    public Corpus(TokenDocuments documents, int vocabulary, Weights weights, Settings settings) {
        this.documents = documents;
        this.settings = settings;
        List<Window> windows = new ArrayList<>();
        int divided = 0;
        long repeated = 0;
        DataFacts.DocumentCount tooLong = DataFacts.DocumentCount.NONE;
        DataFacts.DocumentCount withoutLoss = DataFacts.DocumentCount.NONE;
        DataFacts.DocumentCount unselected = DataFacts.DocumentCount.NONE;
        long droppedTargets = 0;
        for (int d = 0; d < documents.count(); d++) {
            float w = (float) weights.of(d);
            TokenDocument read = documents.read(d);
            requireKnown(read, vocabulary);
            int size = read.ids().length;
            int all = read.lossTokens();
            if (all == 0) {
                withoutLoss = withoutLoss.plus(size);
            } else if (w <= 0) {
                unselected = unselected.plus(size);
            } else if (size <= settings.context) {
                if (transformable(read)) {
                    transformable.set(windows.size());
                }
                windows.add(new Window(d, 0, size, all, w));
            } else if (isPlain(read)) {
                divided++;
                for (int from = 0; from < size - 1; from += settings.context - 1) {
                    int to = Math.min(size, from + settings.context);
                    windows.add(new Window(d, from, to - from, targets(read, from, to), w));
                    repeated += from > 0 ? 1 : 0;
                }
            } else {
                tooLong = tooLong.plus(size);
                droppedTargets += all;
            }
        }
        document = windows.stream().mapToInt(Window::document).toArray();
        begin = windows.stream().mapToInt(Window::begin).toArray();
        length = windows.stream().mapToInt(Window::length).toArray();
        targets = windows.stream().mapToInt(Window::targets).toArray();
        weight = new float[document.length];
        for (int i = 0; i < weight.length; i++) {
            weight[i] = windows.get(i).weight();
        }
        facts = new DataFacts(
                settings.context,
                (int) Arrays.stream(document).distinct().count(),
                Arrays.stream(targets).asLongStream().sum(),
                Arrays.stream(length).asLongStream().sum(),
                divided,
                repeated,
                tooLong,
                droppedTargets,
                withoutLoss,
                unselected);
    }

    private static void requireKnown(TokenDocument read, int vocabulary) {
        for (int i = 0; i < read.ids().length; i++) {
            if (read.ids()[i] < 0 || read.ids()[i] >= vocabulary) {
                throw new ConfigException("document " + read.id() + ": token " + i + " is " + read.ids()[i]
                        + ", but the model has " + vocabulary + " tokens");
            }
        }
    }

    /** Number of tokens in the window that are predicted and count in the loss; the first token is never predicted. */
    private static int targets(TokenDocument read, int from, int to) {
        int count = 0;
        for (int i = from + 1; i < to; i++) {
            count += read.counted()[i] ? 1 : 0;
        }
        return count;
    }

    private boolean transformable(TokenDocument read) {
        return settings.fimRate > 0
                && read.ids().length + FimTokens.EXTRA <= settings.context
                && whole(read)
                && settings.markers.isPresent()
                && settings.markers.get().applies(read.ids());
    }

    private static boolean whole(TokenDocument read) {
        for (boolean counted : read.counted()) {
            if (!counted) {
                return false;
            }
        }
        return true;
    }

    /** Returns true if the document can be divided into windows: its tokens depend only on the tokens before them. */
    private boolean isPlain(TokenDocument read) {
        boolean all = read.lossTokens() == read.ids().length - 1;
        return all && (settings.markers.isEmpty() || settings.markers.get().isFreeOf(read.ids()));
    }

    public DataFacts facts() {
        return facts;
    }

    /**
     * A random sample of windows for evaluation, in document order.
     *
     * @param of tokens of all windows
     */
    public record Sample(List<Integer> windows, long tokens, long lossTokens, long of, long seed) {
        boolean isAll() {
            return tokens == of;
        }

        /** Returns a description such as "200,000 of 33.8 M tokens, seed 42". */
        public String describe() {
            String counted = String.format(Locale.ROOT, "%,d count in the loss", lossTokens);
            return isAll()
                    ? String.format(Locale.ROOT, "all %,d tokens (%s)", tokens, counted)
                    : String.format(Locale.ROOT, "%,d of %s tokens (%s), seed %d", tokens, rounded(of), counted, seed);
        }

        private static String rounded(long count) {
            return count < 1_000_000
                    ? String.format(Locale.ROOT, "%,d", count)
                    : String.format(Locale.ROOT, "%.1f M", count / 1e6);
        }
    }

    /**
     * Draws whole windows with at most {@code most} tokens, but at least one window. Draws all windows if {@code most}
     * is 0.
     */
    public Sample sample(long most, long seed) {
        boolean all = most == 0 || facts.tokens() <= most;
        List<Integer> chosen = new ArrayList<>();
        long tokens = 0;
        for (int window : all ? IntStream.range(0, windows()).toArray() : shuffled(windows(), 0, SAMPLE, 0, seed)) {
            if (!all && !chosen.isEmpty() && tokens + length[window] > most) {
                break;
            }
            chosen.add(window);
            tokens += length[window];
        }
        long counted = chosen.stream().mapToLong(window -> targets[window]).sum();
        return new Sample(chosen.stream().sorted().toList(), tokens, counted, facts.tokens(), seed);
    }

    /** Returns the document of a window. */
    public int document(int window) {
        return document[window];
    }

    public int length(int window) {
        return length[window];
    }

    /** Number of windows that fit the context. */
    public int windows() {
        return length.length;
    }

    /** Returns the sequences of an epoch in training order, each a list of windows. */
    public List<List<Integer>> epoch(int epoch) {
        int[] order = order(windows(), epoch, 0);
        int[] lengths = Arrays.stream(order)
                .map(window -> length[window] + (isTransformed(window, epoch) ? FimTokens.EXTRA : 0))
                .toArray();
        List<List<Integer>> packed = settings.packing
                ? Packing.pack(lengths, settings.context)
                : IntStream.range(0, order.length).mapToObj(List::of).toList();
        List<List<Integer>> sequences = new ArrayList<>();
        for (int bin : order(packed.size(), epoch, 1)) {
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

    private int[] order(int count, int epoch, int stage) {
        return settings.ordered
                ? IntStream.range(0, count).toArray()
                : shuffled(count, epoch, SHUFFLE, stage, settings.seed);
    }

    /** Fisher-Yates shuffle, keyed by the epoch. */
    private static int[] shuffled(int count, int epoch, int site, int stage, long seed) {
        int[] order = IntStream.range(0, count).toArray();
        for (int i = count - 1; i > 0; i--) {
            int word = Philox.words(i, epoch, site, stage, (int) seed, (int) (seed >>> 32))[0];
            int j = (int) ((word & 0xffffffffL) * (i + 1) >>> 32);
            int other = order[i];
            order[i] = order[j];
            order[j] = other;
        }
        return order;
    }

    private boolean isTransformed(int window, int epoch) {
        return transformable.get(window) && draw(window, epoch, 0) < settings.fimRate;
    }

    private float draw(int window, int epoch, int stage) {
        int[] words = Philox.words(window, epoch, FIM, stage, (int) settings.seed, (int) (settings.seed >>> 32));
        return (words[0] >>> 8) * 0x1p-24f;
    }

    /** Reads the training examples of a sequence. */
    public List<TrainingExample> read(List<Integer> sequence, int epoch) {
        List<TrainingExample> examples = new ArrayList<>();
        for (int window : sequence) {
            TokenDocument read = documents.read(document[window]);
            int[] ids = Arrays.copyOfRange(read.ids(), begin[window], begin[window] + length[window]);
            int[] labels = ids.clone();
            for (int i = 0; i < labels.length; i++) {
                if (!read.counted()[begin[window] + i]) {
                    labels[i] = TrainingExample.IGNORED;
                }
            }
            int sample = epoch * windows() + window;
            if (isTransformed(window, epoch)) {
                boolean suffixFirst = draw(window, epoch, 1) < settings.spmRate;
                ids = settings.markers.orElseThrow().transform(ids, suffixFirst, settings.seed, sample);
                labels = ids;
            }
            examples.add(new TrainingExample(ids, labels, sample, weight[window]));
        }
        return examples;
    }
}
