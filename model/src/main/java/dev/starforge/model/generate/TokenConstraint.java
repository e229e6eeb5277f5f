package dev.starforge.model.generate;

import java.util.BitSet;
import java.util.Optional;

/** Which tokens a text may go on with. */
@FunctionalInterface
public interface TokenConstraint {
    /** Any, always. */
    TokenConstraint NONE = _ -> Optional.empty();

    /** The ids that may follow what was written since the prompt; nothing where any may, now and from then on. */
    Optional<BitSet> allowed(int... written);
}
