package dev.starforge.text.tokenizer;

import java.util.BitSet;
import java.util.Optional;
import java.util.function.Function;

/**
 * A prompt without its last tokens, which the first generated tokens spell again; or an unchanged prompt.
 *
 * @param ids the remaining prompt
 * @param characters number of characters that are generated again and are not part of the completion
 * @param constraint the tokens allowed after those generated so far; empty if all are allowed
 */
public record HealedPrompt(int[] ids, int characters, Function<int[], Optional<BitSet>> constraint) {
    /** A prompt without healing. */
    public static HealedPrompt asIs(int... ids) {
        return new HealedPrompt(ids, 0, _ -> Optional.empty());
    }

    /** The tokens allowed after those generated so far; empty if all are allowed. */
    public Optional<BitSet> allowed(int... written) {
        return constraint.apply(written);
    }
}
