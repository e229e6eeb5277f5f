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
 * Lets a prompt end anywhere. Where it ends in white space or inside a word, its last tokens are ones that training never saw
 * before what follows: {@code "\n    "} where a file has {@code "\n   "} and {@code " return"}. So the last tokens are taken
 * back, and the first new ones must spell their bytes again; what the model then writes is what it would have written had
 * the text not been cut there (Lundberg 2023, whose name for it HF has, too).
 *
 * <p>A token that spells all of what is left may be any. A shorter one must be followed by another that the tokenizer would put
 * after it: otherwise a likely {@code "\n"} leads to spaces that no text has after it. A sequence of BPE tokens is what its
 * text encodes to exactly if each pair in it is (van Antwerpen and Neubeck 2024), so pairs are what is asked.
 */
final class TokenHealing {
    /** How many tokens are taken back at most; the last word is seldom longer. */
    private static final int MAX_REMOVED_TOKENS = 4;

    private final Tokenizer tokenizer;
    private final byte[][] spelled; // by id; empty for tokens that no text has
    private final int[] sorted; // ids by their bytes

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

    /** Takes back what may be spelled otherwise; at least one token stays, and a character is not torn. */
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

    /** What of the bytes the new tokens have not spelled yet. */
    private Optional<byte[]> remainingBytes(byte[] taken, int... written) {
        int done = written.length < taken.length ? join(written).length : taken.length;
        return done < taken.length ? Optional.of(Arrays.copyOfRange(taken, done, taken.length)) : Optional.empty();
    }

    /** Tokens that spell these bytes and maybe more, or their beginning. */
    private BitSet allowed(byte... bytes) {
        BitSet all = covering(bytes);
        BitSet shorter = beginning(bytes);
        shorter.stream().filter(id -> canContinue(id, bytes)).forEach(all::set);
        if (all.isEmpty()) {
            all.or(shorter); // a tokenizer that is not BPE
        }
        return all;
    }

    /** Whether what is left of the bytes after a token can follow it. */
    private boolean canContinue(int id, byte... bytes) {
        byte[] rest = Arrays.copyOfRange(bytes, spelled[id].length, bytes.length);
        return covering(rest).stream().anyMatch(next -> pairs(id, next))
                || beginning(rest).stream().anyMatch(next -> pairs(id, next) && canContinue(next, rest));
    }

    /** Whether the tokenizer makes these two of their text; of a torn character it is not known. */
    private boolean pairs(int first, int second) {
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

    /** The first token in order that is not before these bytes. */
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
