package dev.starforge.api;

import java.nio.file.Path;

/**
 * A model that was made of a base and an adapter, read back and compared: it computes what the two compute together.
 *
 * @param model a folder or a .gguf file
 * @param difference largest difference of a logit to base + adapter
 * @param bound what was allowed
 * @param change largest difference of a logit that the adapter makes to its base
 */
public record MergeResult(Path model, double difference, double bound, double change) {}
