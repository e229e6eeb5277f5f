package dev.starforge.api;

import java.nio.file.Path;

/**
 * The result of merging an adapter into its base model. The merged model was read back and its logits were compared with
 * those of base + adapter.
 *
 * @param model the merged model, a folder or a .gguf file
 * @param difference largest absolute difference of a logit between the merged model and base + adapter
 * @param bound the largest difference allowed
 * @param change largest absolute difference of a logit between base + adapter and the base
 */
public record MergeResult(Path model, double difference, double bound, double change) {}
