package dev.starforge.model.layer;

import java.util.List;

/** Adds low-rank updates to the projections of a model while its weights are loaded. */
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

    /** Returns the projection at {@code path} with this adapter's update, or {@code base} if there is none. */
    Projection apply(String path, Projection base, int in, int out);

    /**
     * Returns the update of a stack of experts at {@code path}: none or one. In PEFT the wrappers are nested: the inner
     * one has the update of gate and up, the outer one the update of down.
     */
    List<ExpertStack.ExpertUpdate> expertUpdates(String path, int experts, int in, int out, boolean outer);
}
