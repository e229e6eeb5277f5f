package dev.starforge.model;

/** What is added to a model's projections. */
interface Adapter {
    Adapter NONE = (path, base, in, out) -> base;

    /** The projection at {@code path} with this adapter's update for it, or {@code base} if it has none. */
    Projection apply(String path, Projection base, int in, int out);
}
