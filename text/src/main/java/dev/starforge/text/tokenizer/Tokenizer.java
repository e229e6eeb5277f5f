package dev.starforge.text.tokenizer;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.bpe.TokenModel;
import dev.starforge.text.bpe.WordEncoder;
import dev.starforge.text.pretokenizer.ByteAlphabet;
import dev.starforge.text.pretokenizer.Normalizer;
import dev.starforge.text.pretokenizer.PatternBudget;
import dev.starforge.text.pretokenizer.PreTokenSink;
import dev.starforge.text.pretokenizer.PreTokenizer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import org.jspecify.annotations.Nullable;

/**
 * Text to ids and back: added tokens are cut out, the rest is normalized, cut into words, and encoded word by word;
 * decoding goes the other way. Made from a {@code tokenizer.json}, from the vocabulary of a GGUF file, or by training;
 * all three are the same machine with different parts.
 *
 * <p>Immutable, and usable from many threads at once: what a call needs to scribble on is borrowed from a small pool.
 */
public final class Tokenizer {
    private static final int IDLE_WORKERS = 16;

    /** A worker that has seen more text than this keeps buffers of that size, and is let go. */
    private static final int LARGE_TEXT = 1 << 22;

    private static final String ANCHOR = "\u263A";

    private static final char MARK = '\u2581';

    private final Path file;
    private final TokenModel model;
    private final AddedTokens added;
    private final Map<String, Integer> addedIds = new HashMap<>();
    private final String[] addedTexts;
    private final Normalizer normalizer;
    private final PreTokenizer preTokenizer;
    private final TemplateProcessing template;
    private final Decoder decoder;
    private final BlockingQueue<Worker> idle = new ArrayBlockingQueue<>(IDLE_WORKERS);
    private volatile Beginning beginning = Beginning.UNKNOWN;
    private volatile @Nullable TokenHealing healing;

    private enum Beginning {
        UNKNOWN,
        PLAIN,
        MARKED
    }

    Tokenizer(
            Path file,
            TokenModel model,
            List<AddedToken> added,
            Normalizer normalizer,
            PreTokenizer.Sequence stages,
            TemplateProcessing template,
            Decoder decoder) {
        this.file = file;
        this.model = model;
        this.added = new AddedTokens(added, normalizer, new PatternBudget(file));
        this.normalizer = normalizer;
        this.preTokenizer = model.neverMergesOnto(MARK)
                ? new PreTokenizer.Sequence(List.of(stages, new PreTokenizer.BeforeRuns(MARK)))
                : stages;
        this.template = template;
        this.decoder = decoder;
        int size = model.vocabulary().size();
        for (AddedToken token : added) {
            addedIds.put(token.content(), token.id());
            size = Math.max(size, token.id() + 1);
        }
        addedTexts = new String[size];
        for (AddedToken token : added) {
            addedTexts[token.id()] = token.content();
        }
        for (int id : template.ids()) {
            if (!has(id)) {
                throw new TokenizerException(
                        file, "the template of special tokens has id " + id + ", which no token has");
            }
        }
    }

    /** Reads a {@code tokenizer.json}. */
    public static Tokenizer read(Path file) {
        return TokenizerJson.read(file);
    }

    /** Builds a tokenizer from the vocabulary of a GGUF file. */
    public static Tokenizer of(GgufVocabulary vocabulary) {
        return GgufTokenizer.tokenizer(vocabulary);
    }

    /** What one call at a time works with. */
    private final class Worker {
        private final PatternBudget budget = new PatternBudget(file);
        private final WordEncoder encoder = model.encoder();
        private final PreTokenSink pieces = preTokenizer.onto(encoder, budget);
    }

    public int[] encode(String text, boolean addSpecial) {
        TokenIdList ids = new TokenIdList();
        encode(text, addSpecial, ids);
        return ids.toArray();
    }

    /**
     * Appends the ids of a string. An unpaired surrogate counts as U+FFFD.
     *
     * @param addSpecial true to add the special tokens of the post-processor
     */
    public void encode(String text, boolean addSpecial, TokenIdList ids) {
        String whole = wellFormed(text);
        Worker worker = idle.poll();
        if (worker == null) {
            worker = new Worker();
        }
        worker.budget.begin(whole.length());
        worker.encoder.into(ids);
        if (addSpecial) {
            ids.addAll(template.before());
        }
        encode(whole, worker, ids);
        if (addSpecial) {
            ids.addAll(template.after());
        }
        if (whole.length() < LARGE_TEXT) {
            worker.encoder.into(new TokenIdList());
            idle.offer(worker);
        }
    }

    private void encode(String text, Worker worker, TokenIdList ids) {
        added.splitRaw(text, new AddedTokens.Parts() {
            @Override
            public void token(int id) {
                ids.add(id);
            }

            @Override
            public void text(int from, int to) {
                String normalized = normalizer.apply(text.substring(from, to), worker.budget);
                added.splitNormalized(normalized, new AddedTokens.Parts() {
                    @Override
                    public void token(int id) {
                        ids.add(id);
                    }

                    @Override
                    public void text(int start, int end) {
                        char[] chars = new char[end - start];
                        normalized.getChars(start, end, chars, 0);
                        worker.pieces.preToken(chars, 0, chars.length, from == 0 && start == 0);
                    }
                });
            }
        });
    }

    /**
     * Appends the ids of a text that stands after others: it gets no space of its own in front, and what looks like an
     * added token in it is ordinary text, so that a file about a vocabulary cannot end its own document.
     */
    public void encodeFragment(String text, TokenIdList ids) {
        if (!prependsSpace()) {
            ids.addAll(encodeOrdinary(text));
            return;
        }
        // behind a character that merges with nothing, which is then taken off
        int[] anchor = encodeOrdinary(ANCHOR);
        int[] both = encodeOrdinary(ANCHOR + text);
        ids.addAll(Arrays.copyOfRange(both, anchor.length, both.length));
    }

    /** Whether a text gets a mark of its own in front; several threads may find that out, all the same. */
    private boolean prependsSpace() {
        if (beginning == Beginning.UNKNOWN) {
            beginning = token(encodeOrdinary("a")[0]).charAt(0) == MARK ? Beginning.MARKED : Beginning.PLAIN;
        }
        return beginning == Beginning.MARKED;
    }

    private int[] encodeOrdinary(String text) {
        String whole = wellFormed(text);
        Worker polled = idle.poll();
        Worker worker = polled == null ? new Worker() : polled;
        TokenIdList ids = new TokenIdList();
        worker.budget.begin(whole.length());
        worker.encoder.into(ids);
        char[] chars = normalizer.apply(whole, worker.budget).toCharArray();
        worker.pieces.preToken(chars, 0, chars.length, true);
        if (whole.length() < LARGE_TEXT) {
            worker.encoder.into(new TokenIdList());
            idle.offer(worker);
        }
        return ids.toArray();
    }

    /** The text of some ids; an id that no token has is left out. */
    public String decode(int[] ids, boolean skipSpecial) {
        StringBuilder text = new StringBuilder();
        DecodeStream stream = stream(skipSpecial);
        for (int id : ids) {
            text.append(stream.push(id));
        }
        return text.append(stream.finish()).toString();
    }

    /** Decodes ids as they come. */
    public DecodeStream stream(boolean skipSpecial) {
        return new DecodeStream(this, decoder, new PatternBudget(file), skipSpecial);
    }

    /** One more than the highest id: the rows that an embedding of this vocabulary needs. */
    public int size() {
        return addedTexts.length;
    }

    public boolean has(int id) {
        return id >= 0
                && id < addedTexts.length
                && (addedTexts[id] != null || model.vocabulary().has(id));
    }

    /** The token as the vocabulary spells it: byte-level vocabularies spell a space {@code Ġ}. */
    public String token(int id) {
        if (!has(id)) {
            throw new TokenizerException(file, "token: no token has id " + id + "; ids are below " + size());
        }
        return addedTexts[id] != null ? addedTexts[id] : model.vocabulary().text(id);
    }

    /** The bytes of a token; empty for added tokens and unused ids. */
    byte[] bytes(int id) {
        if (!has(id) || addedTexts[id] != null) {
            return new byte[0];
        }
        String token = token(id);
        if (decoder.spellsBytes() && token.chars().allMatch(c -> ByteAlphabet.valueOf((char) c) >= 0)) {
            byte[] bytes = new byte[token.length()];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = (byte) ByteAlphabet.valueOf(token.charAt(i));
            }
            return bytes;
        }
        int single = Decoder.ByteFallback.byteOf(token);
        return single >= 0
                ? new byte[] {(byte) single}
                : token.replace(MARK, ' ').getBytes(StandardCharsets.UTF_8);
    }

    /** A text's tokens; of one that has too many the last, behind what stands before every text. */
    public int[] encodeLast(String text, int most) {
        int[] ids = encode(text, true);
        if (ids.length <= most) {
            return ids;
        }
        int[] first = encode("", true);
        int[] kept = Arrays.copyOfRange(ids, ids.length - most, ids.length);
        System.arraycopy(first, 0, kept, 0, first.length);
        return kept;
    }

    /** A prompt that may end anywhere: see {@link TokenHealing}. */
    public HealedPrompt heal(int... prompt) {
        TokenHealing known = healing;
        if (known == null) {
            known = new TokenHealing(this); // several threads may make one, all the same
            healing = known;
        }
        return known.heal(prompt);
    }

    /** The id of a token as the vocabulary spells it. */
    public OptionalInt id(String token) {
        int id = addedIds.getOrDefault(token, model.vocabulary().id(token));
        return id < 0 ? OptionalInt.empty() : OptionalInt.of(id);
    }

    /** The added tokens by id, special ones among them. */
    public List<AddedToken> addedTokens() {
        Collection<AddedToken> all = added.all();
        return all.stream().sorted(Comparator.comparingInt(AddedToken::id)).toList();
    }

    public boolean isSpecial(int id) {
        return added.isSpecial(id);
    }

    public static String wellFormed(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i))) {
                int point = text.codePointAt(i);
                if (point < Character.MIN_SUPPLEMENTARY_CODE_POINT) {
                    return repaired(text);
                }
                i++;
            }
        }
        return text;
    }

    private static String repaired(String text) {
        StringBuilder whole = new StringBuilder(text.length());
        text.codePoints()
                .map(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE ? Utf8.REPLACEMENT : c)
                .forEach(whole::appendCodePoint);
        return whole.toString();
    }
}
