package dev.starforge.text.tokenizer;

import dev.starforge.text.TokenIdList;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * Token healing: lets a prompt end anywhere. A prompt that ends in white space or inside a word ends with tokens that
 * are rare in training: {@code "\n    "} where files have {@code "\n   "} and {@code " return"}. So the last tokens are
 * removed, and the first generated tokens must spell their bytes again. The model then continues as if the text had not
 * been cut there (Lundberg 2023; also in HF).
 *
 * <p>Any token that spells all removed bytes is allowed. A shorter one must be followed by a token that the tokenizer
 * would put after it; otherwise a likely {@code "\n"} would lead to spaces that never follow it. A sequence of BPE
 * tokens is the encoding of its text exactly if each adjacent pair is (van Antwerpen and Neubeck 2024), so pairs are
 * tested.
 */
final class TokenHealing {
    /** Maximum number of removed tokens; the last word is seldom longer. */
    private static final int MAX_REMOVED_TOKENS = 4;

    private final Tokenizer tokenizer;
    private final byte[][] spelled; // by id; empty for tokens without text
    private final int[] sorted; // ids in the order of their bytes

    TokenHealing(Tokenizer tokenizer) {
        this.tokenizer = tokenizer;
        spelled = new byte[tokenizer.size()][];
        Arrays.setAll(spelled, tokenizer::bytes);
        sorted = IntStream.range(0, spelled.length)
                .filter(id -> spelled[id].length > 0)
                .boxed()
                .sorted((a, b) -> Arrays.compareUnsigned(spelled[a], spelled[b]))
                .mapToInt(id -> id)
                .toArray();
    }

    /** Removes the tokens that may be spelled otherwise. Keeps at least one token and does not split a character. */
    HealedPrompt heal(int... ids) {
        int from = ids.length;
        while (from > 1 && ids.length - from < MAX_REMOVED_TOKENS && spelled(ids[from - 1]).length > 0) {
            from--;
        }
        while (from < ids.length) {
            byte[] taken = join(Arrays.copyOfRange(ids, from, ids.length));
            boolean whole = (taken[0] & 0xC0) != 0x80;
            BitSet allowed = allowed(taken);
            if (whole && allowed.cardinality() > 1) {
                int[] kept = Arrays.copyOf(ids, from);
                int characters = tokenizer.decode(ids, true).length()
                        - tokenizer.decode(kept, true).length();
                return new HealedPrompt(
                        kept,
                        characters,
                        written -> written.length == 0
                                ? Optional.of(allowed)
                                : remainingBytes(taken, written).map(this::allowed));
            }
            from++;
        }
        return HealedPrompt.asIs(ids);
    }

    private byte[] spelled(int id) {
        return id < spelled.length ? spelled[id] : new byte[0];
    }

    private byte[] join(int... ids) {
        ByteBuffer all = ByteBuffer.allocate(
                Arrays.stream(ids).map(id -> spelled(id).length).sum());
        for (int id : ids) {
            all.put(spelled(id));
        }
        return all.array();
    }

    /** The removed bytes that the generated tokens have not spelled yet. */
    private Optional<byte[]> remainingBytes(byte[] taken, int... written) {
        int done = written.length < taken.length ? join(written).length : taken.length;
        return done < taken.length ? Optional.of(Arrays.copyOfRange(taken, done, taken.length)) : Optional.empty();
    }

    /** Tokens that begin with these bytes, or that are a prefix of them. */
    private BitSet allowed(byte... bytes) {
        BitSet all = covering(bytes);
        BitSet shorter = beginning(bytes);
        shorter.stream().filter(id -> canContinue(id, bytes)).forEach(all::set);
        if (all.isEmpty()) {
            all.or(shorter); // a tokenizer that is not BPE
        }
        return all;
    }

    /** Returns true if the remaining bytes can follow this token. */
    private boolean canContinue(int id, byte... bytes) {
        byte[] rest = Arrays.copyOfRange(bytes, spelled[id].length, bytes.length);
        return covering(rest).stream().anyMatch(next -> encodesTogether(id, next))
                || beginning(rest).stream().anyMatch(next -> encodesTogether(id, next) && canContinue(next, rest));
    }

    /**
     * Returns true if the tokenizer encodes the text of these two tokens to the same two, or if they split a character.
     */
    private boolean encodesTogether(int first, int second) {
        try {
            String text = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(join(first, second)))
                    .toString();
            TokenIdList ids = new TokenIdList();
            tokenizer.encodeFragment(text, ids);
            return ids.size() == 2 && ids.get(0) == first && ids.get(1) == second;
        } catch (CharacterCodingException torn) {
            return true;
        }
    }

    private BitSet covering(byte... bytes) {
        BitSet ids = new BitSet();
        for (int i = lowerBound(bytes); i < sorted.length && begins(spelled[sorted[i]], bytes); i++) {
            ids.set(sorted[i]);
        }
        return ids;
    }

    private BitSet beginning(byte... bytes) {
        BitSet ids = new BitSet();
        for (int length = 1; length < bytes.length; length++) {
            byte[] part = Arrays.copyOf(bytes, length);
            for (int i = lowerBound(part); i < sorted.length && Arrays.equals(spelled[sorted[i]], part); i++) {
                ids.set(sorted[i]);
            }
        }
        return ids;
    }

    /** The index of the first token in order that is not less than these bytes. */
    private int lowerBound(byte... bytes) {
        int low = 0;
        int high = sorted.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (Arrays.compareUnsigned(spelled[sorted[middle]], bytes) < 0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private static boolean begins(byte[] token, byte... bytes) {
        return token.length >= bytes.length && Arrays.mismatch(Arrays.copyOf(token, bytes.length), bytes) < 0;
    }
}
