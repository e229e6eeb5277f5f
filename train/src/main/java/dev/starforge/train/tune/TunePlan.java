package dev.starforge.train.tune;

import dev.starforge.data.dataset.RepositoryFacts;
import java.nio.file.Path;
import java.util.Map;

/**
 * What a tune will do, as far as it is known before the first step.
 *
 * @param round 1 for the first; later ones train on new commits only
 * @param continues whether a call before this one has begun the round
 * @param base the model's name
 * @param device what is computed on, and why
 * @param tokensPerSecond of training, as measured here
 * @param memoryBytes that training takes
 * @param seconds of each step, estimated; without training where its length depends on the dataset
 */
public record TunePlan(
        Path repository,
        RepositoryFacts facts,
        int round,
        boolean continues,
        String base,
        long parameters,
        String device,
        double tokensPerSecond,
        long memoryBytes,
        Map<TuneStep, Double> seconds,
        Path output) {}
