package dev.starforge.text.trainer;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.bpe.LongMap;
import dev.starforge.text.pretokenizer.BuiltinSplitter;
import dev.starforge.text.pretokenizer.ByteAlphabet;
import dev.starforge.text.pretokenizer.Normalizer;
import dev.starforge.text.pretokenizer.PatternBudget;
import dev.starforge.text.pretokenizer.PreTokenSink;
import dev.starforge.text.pretokenizer.PreTokenizer;
import dev.starforge.text.pretokenizer.Splitter;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;

/**
 * Trains a byte-level BPE vocabulary: the special tokens, the 256 bytes, then the most frequent adjacent pair,
 * repeatedly. Among equally frequent pairs the one with the lower ids comes first, so the result depends only on the
 * texts, not on their order or the machine. As in the Rust library, counts changed by a merge are updated lazily when a
 * pair is dequeued. Ties and duplicates are handled identically, so the vocabularies are identical.
 */
public final class BpeTrainer {
    private static final Path TRAINED = Path.of("trained");

    private final Settings settings;
    private final List<String> tokens = new ArrayList<>();
    private final Map<String, Integer> ids = new HashMap<>();
    private final List<int[]> words = new ArrayList<>();
    private final List<Long> counts = new ArrayList<>();
    private final Map<Long, Pair> pairs = new HashMap<>();
    private final PriorityQueue<Candidate> candidates = new PriorityQueue<>();
    private final List<Pair> grown = new ArrayList<>();

    /**
     * Settings of the training.
     *
     * @param vocabularySize includes special tokens and bytes
     * @param leastFrequency pairs that are less frequent are not merged
     */
    public record Settings(int vocabularySize, List<String> specialTokens, Splitting splitting, long leastFrequency) {
        public Settings {
            int least = 256 + new LinkedHashSet<>(specialTokens).size();
            if (vocabularySize < least) {
                throw new IllegalArgumentException(
                        "train: a vocabulary of " + vocabularySize + ", expected at least " + least);
            }
            if (specialTokens.contains("")) {
                throw new IllegalArgumentException("train: an empty special token");
            }
            specialTokens = List.copyOf(specialTokens);
        }
    }

    /** The pre-tokenizer, named after the models that use it. */
    public enum Splitting {
        GPT2,
        STARCODER2,
        LLAMA3,
        QWEN2;

        List<PreTokenizer> stages() {
            return switch (this) {
                case GPT2 -> List.of(PreTokenizer.Split.isolated(BuiltinSplitter.GPT2));
                case STARCODER2 ->
                    List.of(
                            PreTokenizer.Split.isolated(Splitter.Each.NUMBER),
                            PreTokenizer.Split.isolated(BuiltinSplitter.GPT2));
                case LLAMA3 -> List.of(PreTokenizer.Split.isolated(BuiltinSplitter.LLAMA3));
                case QWEN2 -> List.of(PreTokenizer.Split.isolated(BuiltinSplitter.QWEN2));
            };
        }

        Normalizer normalizer() {
            return this == QWEN2
                    ? Normalizer.Unicode.of(java.text.Normalizer.Form.NFC)
                    : new Normalizer.Sequence(List.of());
        }
    }

    /** An adjacent pair, its count, and the words where it newly appeared. */
    private static final class Pair {
        private final int left;
        private final int right;
        private final TokenIdList where = new TokenIdList();
        private long count;

        private Pair(int left, int right) {
            this.left = left;
            this.right = right;
        }
    }

    private record Candidate(Pair pair, long count, int[] where) implements Comparable<Candidate> {
        @Override
        public int compareTo(Candidate other) {
            int order = Long.compare(other.count, count);
            order = order != 0 ? order : Integer.compare(pair.left, other.pair.left);
            return order != 0 ? order : Integer.compare(pair.right, other.pair.right);
        }
    }

    private BpeTrainer(Settings settings) {
        this.settings = settings;
    }

    public static TrainedTokenizer train(Iterator<String> texts, Settings settings) {
        BpeTrainer trainer = new BpeTrainer(settings);
        trainer.begin();
        trainer.count(texts);
        return TrainedTokenizer.of(settings, trainer.tokens, trainer.merge());
    }

    private void begin() {
        settings.specialTokens().forEach(this::token);
        char[] alphabet = new char[256];
        for (int b = 0; b < alphabet.length; b++) {
            alphabet[b] = ByteAlphabet.character(b);
        }
        Arrays.sort(alphabet);
        for (char c : alphabet) {
            token(String.valueOf(c));
        }
    }

    /** Returns the id of a token; adds the token if it does not exist. */
    private int token(String text) {
        Integer known = ids.putIfAbsent(text, tokens.size());
        if (known == null) {
            tokens.add(text);
        }
        return ids.get(text);
    }

    private void count(Iterator<String> texts) {
        Map<String, Long> frequencies = new LinkedHashMap<>();
        PatternBudget budget = new PatternBudget(TRAINED);
        PreTokenSink pieces = new PreTokenizer.Sequence(settings.splitting().stages())
                .onto(
                        (text, from, to, first) -> frequencies.merge(new String(text, from, to - from), 1L, Long::sum),
                        budget);
        Normalizer normalizer = settings.splitting().normalizer();
        while (texts.hasNext()) {
            String text = Tokenizer.wellFormed(texts.next());
            budget.begin(text.length());
            char[] normalized = normalizer.apply(text, budget).toCharArray();
            if (normalized.length > 0) {
                pieces.preToken(normalized, 0, normalized.length, true);
            }
        }
        frequencies.forEach((word, frequency) -> {
            int[] symbols = symbols(word.toCharArray());
            words.add(symbols);
            counts.add(frequency);
            for (int i = 1; i < symbols.length; i++) {
                change(symbols[i - 1], symbols[i], 1, words.size() - 1);
            }
        });
        offerGrown();
    }

    private int[] symbols(char[] word) {
        char[] spelled = new char[3 * word.length];
        int[] symbols = new int[ByteAlphabet.spell(word, 0, word.length, spelled)];
        Arrays.setAll(symbols, i -> ids.get(String.valueOf(spelled[i])));
        return symbols;
    }

    private void change(int left, int right, int sign, int word) {
        Pair pair = pairs.computeIfAbsent(LongMap.pair(left, right), key -> new Pair(left, right));
        pair.count += sign * counts.get(word);
        if (sign > 0) {
            int known = pair.where.size();
            if (known == 0) {
                grown.add(pair);
            }
            if (known == 0 || pair.where.get(known - 1) != word) {
                pair.where.add(word);
            }
        }
    }

    private void offerGrown() {
        for (Pair pair : grown) {
            if (pair.count > 0) {
                candidates.add(new Candidate(pair, pair.count, pair.where.toArray()));
            }
            pair.where.clear();
        }
        grown.clear();
    }

    /** Returns the merges in order. A merge that was found twice has the rank of the second time. */
    private List<int[]> merge() {
        Map<Pair, int[]> merges = new LinkedHashMap<>();
        while (tokens.size() < settings.vocabularySize() && !candidates.isEmpty()) {
            Candidate best = candidates.poll();
            Pair pair = best.pair;
            if (best.count != pair.count) {
                if (pair.count > 0) {
                    candidates.add(new Candidate(pair, pair.count, best.where));
                }
                continue;
            }
            if (pair.count < settings.leastFrequency()) {
                break;
            }
            int id = token(tokens.get(pair.left).concat(tokens.get(pair.right)));
            merges.remove(pair);
            merges.put(pair, new int[] {pair.left, pair.right});
            for (int word : best.where) {
                words.set(word, merge(words.get(word), pair, id, word));
            }
            offerGrown();
        }
        return List.copyOf(merges.values());
    }

    private int[] merge(int[] symbols, Pair pair, int id, int word) {
        int[] shorter = new int[symbols.length];
        int size = 0;
        for (int i = 0; i < symbols.length; i++) {
            if (i + 1 == symbols.length || symbols[i] != pair.left || symbols[i + 1] != pair.right) {
                shorter[size++] = symbols[i];
                continue;
            }
            i++;
            if (size > 0) {
                change(shorter[size - 1], pair.left, -1, word);
                change(shorter[size - 1], id, 1, word);
            }
            if (i + 1 < symbols.length) {
                change(pair.right, symbols[i + 1], -1, word);
                change(id, symbols[i + 1], 1, word);
            }
            shorter[size++] = id;
        }
        return Arrays.copyOf(shorter, size);
    }
}
