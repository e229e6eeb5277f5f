package dev.starforge.text.bpe;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.pretokenizer.CharacterClass;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * SentencePiece's byte-pair encoding as in llama.cpp. There is no list of merges: two adjacent symbols merge if their
 * concatenation is a token, the highest score first. A character without a token becomes the tokens of its bytes.
 */
public final class SentencePieceBpe implements TokenModel {
    private final Path file;
    private final Vocabulary vocabulary;
    private final int[] ranks;
    private final int[] bytes;
    private final int unknown;

    /** @param unknown -1 if there is no unknown token */
    public SentencePieceBpe(Path file, Vocabulary vocabulary, float[] scores, int unknown) {
        this.file = file;
        this.vocabulary = vocabulary;
        this.unknown = unknown;
        float[] ascending = new float[scores.length];
        for (int id = 0; id < scores.length; id++) {
            ascending[id] = positiveZero(scores[id]);
        }
        Arrays.sort(ascending);
        ranks = new int[scores.length];
        for (int id = 0; id < ranks.length; id++) {
            ranks[id] = ascending.length - 1 - Arrays.binarySearch(ascending, positiveZero(scores[id]));
        }
        bytes = Bpe.byteTokens(vocabulary);
    }

    private static float positiveZero(float score) {
        return score + 0f;
    }

    @Override
    public Vocabulary vocabulary() {
        return vocabulary;
    }

    @Override
    public boolean neverMergesOnto(char mark) {
        for (int id = 0; id < vocabulary.size(); id++) {
            if (TokenModel.hasInnerMark(vocabulary.text(id), mark)) {
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
        private char[] text = {};

        @Override
        void split(char[] word, int from, int to) {
            text = word;
            for (int i = from; i < to; ) {
                int end = i + CharacterClass.width(word, i, to);
                symbol(vocabulary.id(word, i, end), i, end);
                i = end;
            }
        }

        @Override
        long pair(int left, int right) {
            int id =
                    end(right) - start(left) > vocabulary.longest() ? -1 : vocabulary.id(text, start(left), end(right));
            return id < 0 ? NONE : LongMap.pair(ranks[id], id);
        }

        @Override
        void write(int symbol, TokenIdList out) {
            if (id(symbol) >= 0) {
                out.add(id(symbol));
                return;
            }
            String character = new String(text, start(symbol), end(symbol) - start(symbol));
            for (byte b : character.getBytes(StandardCharsets.UTF_8)) {
                int id = bytes[b & 0xFF] >= 0 ? bytes[b & 0xFF] : unknown;
                if (id < 0) {
                    throw new TokenizerException(
                            file, "has neither a token for byte " + (b & 0xFF) + " nor an unknown");
                }
                out.add(id);
            }
        }
    }
}
