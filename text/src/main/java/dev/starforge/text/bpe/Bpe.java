package dev.starforge.text.bpe;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.pretokenizer.ByteAlphabet;
import dev.starforge.text.pretokenizer.CharacterClass;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/**
 * Byte-pair encoding (Sennrich et al., 2016) with a ranked list of merges. Depending on the settings, a character
 * without a token becomes the tokens of its bytes, becomes the unknown token, or is dropped.
 */
public final class Bpe implements TokenModel {
    private static final int DIRECT = 0x180;

    private final Path file;
    private final Vocabulary vocabulary;
    private final Settings settings;
    private final LongMap merges;
    private final boolean[] results;
    private final int[] direct = new int[DIRECT];
    private final int[] bytes;
    private final int unknown;

    /**
     * Settings of the encoder.
     *
     * @param spellsBytes whether words are plain text that is spelled in {@link ByteAlphabet} here
     * @param byteFallback whether a character without a token becomes {@code <0x61>} tokens, if all of them exist
     * @param unknown token for other characters; if empty, they are dropped
     * @param fusesUnknown whether adjacent characters without a token become one unknown token
     * @param ignoresMerges whether a word that is a token becomes that token regardless of the merges
     */
    public record Settings(
            boolean spellsBytes, boolean byteFallback, String unknown, boolean fusesUnknown, boolean ignoresMerges) {}

    /** A merge of two symbols; {@code place} is the location of the rule in the file. */
    public record Merge(String left, String right, String place) {}

    public Bpe(Path file, Vocabulary vocabulary, List<Merge> list, Settings settings) {
        this.file = file;
        this.vocabulary = vocabulary;
        this.settings = settings;
        merges = new LongMap(list.size());
        results = new boolean[vocabulary.size()];
        for (int rank = 0; rank < list.size(); rank++) {
            Merge merge = list.get(rank);
            int left = known(merge.left, merge);
            int right = known(merge.right, merge);
            int result = known(merge.left.concat(merge.right), merge);
            merges.put(LongMap.pair(left, right), LongMap.pair(rank, result));
            results[result] = true;
        }
        for (char c = 0; c < DIRECT; c++) {
            direct[c] = vocabulary.id(String.valueOf(c));
        }
        bytes = byteTokens(vocabulary);
        unknown = settings.unknown.isEmpty() ? -1 : vocabulary.id(settings.unknown);
    }

    private int known(String text, Merge merge) {
        int id = vocabulary.id(text);
        if (id < 0) {
            throw new TokenizerException(file, merge.place + ": " + text + " is not in the vocabulary");
        }
        return id;
    }

    /** The ids of {@code <0x00>} to {@code <0xFF>}, or -1 if the token does not exist. */
    static int[] byteTokens(Vocabulary vocabulary) {
        int[] ids = new int[256];
        Arrays.setAll(ids, b -> vocabulary.id("<0x%02X>".formatted(b)));
        return ids;
    }

    @Override
    public Vocabulary vocabulary() {
        return vocabulary;
    }

    @Override
    public boolean neverMergesOnto(char mark) {
        if (settings.ignoresMerges || settings.spellsBytes || vocabulary.id(String.valueOf(mark)) < 0) {
            return false;
        }
        for (int id = 0; id < results.length; id++) {
            if (results[id] && TokenModel.hasInnerMark(vocabulary.text(id), mark)) {
                return false;
            }
        }
        return true;
    }

    @Override
    public WordEncoder encoder() {
        return new Encoder();
    }

    private final class Encoder extends WordEncoder {
        private char[] spelled = new char[64];

        @Override
        void split(char[] text, int from, int to) {
            if (!settings.spellsBytes) {
                begin(text, from, to);
                return;
            }
            if (spelled.length < 3 * (to - from)) {
                spelled = new char[4 * (to - from)];
            }
            begin(spelled, 0, ByteAlphabet.spell(text, from, to, spelled));
        }

        private void begin(char[] text, int from, int to) {
            int whole = settings.ignoresMerges ? vocabulary.id(text, from, to) : -1;
            if (whole >= 0) {
                symbol(whole, from, to);
                return;
            }
            boolean pending = false;
            for (int i = from; i < to; ) {
                int end = i + CharacterClass.width(text, i, to);
                int id = text[i] < DIRECT ? direct[text[i]] : vocabulary.id(text, i, end);
                if (id >= 0) {
                    if (pending) {
                        symbol(unknown, i, i);
                        pending = false;
                    }
                    symbol(id, i, end);
                } else if (!settings.byteFallback || !fallBack(text, i, end)) {
                    if (pending && !settings.fusesUnknown) {
                        symbol(unknown, i, i);
                    }
                    pending = hasUnknown();
                }
                i = end;
            }
            if (pending) {
                symbol(unknown, to, to);
            }
        }

        private boolean fallBack(char[] text, int from, int to) {
            byte[] utf8 = new String(text, from, to - from).getBytes(StandardCharsets.UTF_8);
            for (byte b : utf8) {
                if (bytes[b & 0xFF] < 0) {
                    return false;
                }
            }
            for (byte b : utf8) {
                symbol(bytes[b & 0xFF], from, to);
            }
            return true;
        }

        private boolean hasUnknown() {
            if (unknown < 0 && !settings.unknown.isEmpty()) {
                throw new TokenizerException(
                        file, "$.model.unk_token: " + settings.unknown + " is not in the vocabulary");
            }
            return unknown >= 0;
        }

        @Override
        long pair(int left, int right) {
            return merges.get(LongMap.pair(id(left), id(right)));
        }

        @Override
        void write(int symbol, TokenIdList out) {
            out.add(id(symbol));
        }
    }
}
