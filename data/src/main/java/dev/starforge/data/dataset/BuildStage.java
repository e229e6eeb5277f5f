package dev.starforge.data.dataset;

import java.io.IOException;
import java.util.function.LongSupplier;

/**
 * One step of a build.
 *
 * @param name label in progress output and in the report's timings
 * @param total how many times the step calls {@link StageRunner#advance}; 0 if unknown
 */
record BuildStage(String name, LongSupplier total, Step step) {
    /** The work of a stage. */
    interface Step {
        void run() throws IOException;
    }

    /** A stage that cannot tell how much of it is done. */
    BuildStage(String name, Step step) {
        this(name, () -> 0, step);
    }
}
