package dev.starforge.text.tokenizer;

import java.util.BitSet;
import java.util.Optional;
import java.util.function.Function;

/**
 * A prompt whose last tokens were taken back, to be spelled again by the first new ones; or one as it is.
 *
 * @param ids what is left of it
 * @param characters of the text that are written again, and are no part of the continuation
 * @param constraint which tokens may follow some that were written; nothing where any may
 */
public record HealedPrompt(int[] ids, int characters, Function<int[], Optional<BitSet>> constraint) {
    /** With nothing taken back. */
    public static HealedPrompt asIs(int... ids) {
        return new HealedPrompt(ids, 0, _ -> Optional.empty());
    }

    /** The tokens that may follow those that were written; nothing where any may. */
    public Optional<BitSet> allowed(int... written) {
        return constraint.apply(written);
    }
}
