package dev.starforge.model.generate;

import java.util.BitSet;
import java.util.Optional;

/** Restricts the tokens that may follow, as a grammar does. */
@FunctionalInterface
public interface TokenConstraint {
    /** Allows every token. */
    TokenConstraint NONE = _ -> Optional.empty();

    /**
     * Returns the ids that may follow the tokens generated since the prompt. Empty allows all tokens, here and afterwards.
     */
    Optional<BitSet> allowed(int... generated);
}
