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
 * Encodes text to ids and decodes ids to text. Encoding matches added tokens, normalizes the rest, splits it into
 * words, and encodes each word; decoding is the inverse. Created from a {@code tokenizer.json}, from the vocabulary of
 * a GGUF file, or by training.
 *
 * <p>Immutable and thread-safe; working memory comes from a small pool.
 */
public final class Tokenizer {
    private static final int IDLE_WORKERS = 16;

    /** A worker that has processed longer text is discarded, since its buffers have grown to that size. */
    private static final int LARGE_TEXT = 1 << 16;

    private static final String ANCHOR = "\u263A";

    private static final char MARK = '\u2581';

    /** No mark: well-formed text has no low surrogate after a character of its own. */
    private static final char NO_MARK = '\uDC00';

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
    private volatile @Nullable SpecialTokenMarks marks;

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

    /** Creates a tokenizer from the vocabulary of a GGUF file. */
    public static Tokenizer of(GgufVocabulary vocabulary) {
        return GgufTokenizer.tokenizer(vocabulary);
    }

    /** The working memory of one call. */
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
        encode(text, addSpecial, NO_MARK, ids);
    }

    /**
     * Encodes text in which special tokens have no meaning: {@code <|im_end|>} becomes the tokens of its characters.
     *
     * @throws SpecialTokenMarks.NoUnusedMarkException if the text contains all noncharacters from U+FDD0 to U+FDEF
     */
    public int[] encodeAsText(String text, boolean addSpecial) {
        SpecialTokenMarks all = marks();
        char mark = SpecialTokenMarks.unused(List.of(text));
        return encodeMarked(all.mark(text, mark), addSpecial, mark);
    }

    /** The special tokens of this tokenizer, to mark them in text. */
    public SpecialTokenMarks marks() {
        SpecialTokenMarks known = marks;
        if (known == null) {
            known = new SpecialTokenMarks(addedTokens()); // several threads may create it, with the same result
            marks = known;
        }
        return known;
    }

    /** Encodes text with marks, which prevent special tokens and are then removed; see {@link SpecialTokenMarks}. */
    public int[] encodeMarked(String text, boolean addSpecial, char mark) {
        TokenIdList ids = new TokenIdList();
        encode(text, addSpecial, mark, ids);
        return ids.toArray();
    }

    private void encode(String text, boolean addSpecial, char mark, TokenIdList ids) {
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
        encode(whole, worker, mark, ids);
        if (addSpecial) {
            ids.addAll(template.after());
        }
        if (whole.length() < LARGE_TEXT) {
            worker.encoder.into(new TokenIdList());
            idle.offer(worker);
        }
    }

    private void encode(String text, Worker worker, char mark, TokenIdList ids) {
        added.splitRaw(text, mark, new AddedTokens.Parts() {
            @Override
            public void token(int id) {
                ids.add(id);
            }

            @Override
            public void text(int from, int to) {
                String normalized = normalizer.apply(text.substring(from, to), worker.budget);
                added.splitNormalized(normalized, mark, new AddedTokens.Parts() {
                    @Override
                    public void token(int id) {
                        ids.add(id);
                    }

                    @Override
                    public void text(int start, int end) {
                        char[] chars = new char[end - start];
                        normalized.getChars(start, end, chars, 0);
                        int length = mark == NO_MARK ? chars.length : SpecialTokenMarks.remove(chars, mark);
                        worker.pieces.preToken(chars, 0, length, from == 0 && start == 0);
                    }
                });
            }
        });
    }

    /**
     * Appends the ids of text that follows other text. No space is prepended, and added tokens in it are encoded as
     * ordinary text, so that text cannot insert special tokens.
     */
    public void encodeFragment(String text, TokenIdList ids) {
        if (!prependsSpace()) {
            ids.addAll(encodeOrdinary(text));
            return;
        }
        // after a character that merges with nothing, which is then removed
        int[] anchor = encodeOrdinary(ANCHOR);
        int[] both = encodeOrdinary(ANCHOR + text);
        ids.addAll(Arrays.copyOfRange(both, anchor.length, both.length));
    }

    /** Returns true if a mark is prepended to text. Several threads may compute this with the same result. */
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

    /** Decodes ids; ids without a token are skipped. */
    public String decode(int[] ids, boolean skipSpecial) {
        StringBuilder text = new StringBuilder();
        DecodeStream stream = stream(skipSpecial);
        for (int id : ids) {
            text.append(stream.push(id));
        }
        return text.append(stream.finish()).toString();
    }

    /** Returns a stream that decodes ids one by one. */
    public DecodeStream stream(boolean skipSpecial) {
        return new DecodeStream(this, decoder, new PatternBudget(file), skipSpecial);
    }

    /** One more than the highest id, the number of rows of an embedding for this vocabulary. */
    public int size() {
        return addedTexts.length;
    }

    public boolean has(int id) {
        return id >= 0
                && id < addedTexts.length
                && (addedTexts[id] != null || model.vocabulary().has(id));
    }

    /** Returns a token as the vocabulary spells it; byte-level vocabularies spell a space {@code Ġ}. */
    public String token(int id) {
        if (!has(id)) {
            throw new TokenizerException(file, "token: no token has id " + id + "; ids are below " + size());
        }
        return addedTexts[id] != null ? addedTexts[id] : model.vocabulary().text(id);
    }

    /** Returns the bytes of a token; empty for added tokens and unused ids. */
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

    /** Encodes a text and truncates it from the left to {@code most} tokens, including the special tokens before it. */
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

    /** Removes the prompt's last tokens for healing; see {@link TokenHealing}. */
    public HealedPrompt heal(int... prompt) {
        TokenHealing known = healing;
        if (known == null) {
            known = new TokenHealing(this); // several threads may create it, with the same result
            healing = known;
        }
        return known.heal(prompt);
    }

    /** Returns the id of a token as the vocabulary spells it. */
    public OptionalInt id(String token) {
        int id = addedIds.getOrDefault(token, model.vocabulary().id(token));
        return id < 0 ? OptionalInt.empty() : OptionalInt.of(id);
    }

    /** Returns the added tokens by id, including special tokens. */
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
