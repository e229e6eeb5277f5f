package dev.starforge.serve.generation;

import dev.starforge.model.generate.LoopDetector;
import dev.starforge.serve.engine.OutputLimit;

/** Ends the output when it repeats itself. */
public final class RepetitionLimit implements OutputLimit {
    private final LoopDetector loops = new LoopDetector();

    @Override
    public String pass(String delta) {
        loops.push(delta);
        return delta;
    }

    @Override
    public boolean isReached() {
        return loops.isLooping();
    }
}
