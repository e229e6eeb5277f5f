package dev.starforge.model.layer;

import java.util.List;

/** What is added to a model's projections. */
public interface Adapter {
    Adapter NONE = new Adapter() {
        @Override
        public Projection apply(String path, Projection base, int in, int out) {
            return base;
        }

        @Override
        public List<ExpertStack.ExpertUpdate> expertUpdates(String path, int experts, int in, int out, boolean outer) {
            return List.of();
        }
    };

    /** The projection at {@code path} with this adapter's update for it, or {@code base} if it has none. */
    Projection apply(String path, Projection base, int in, int out);

    /**
     * The update of a stack of experts at {@code path}, none or one. PEFT wraps them one in the other: the inner wrapper
     * holds that of gate and up, the outer one that of down.
     */
    List<ExpertStack.ExpertUpdate> expertUpdates(String path, int experts, int in, int out, boolean outer);
}
