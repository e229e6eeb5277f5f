package dev.starforge.train.tune;

import dev.starforge.data.dataset.RepositoryFacts;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * The plan of a run, as far as it is known before the first step.
 *
 * @param round 1 for the first round; later rounds train on new commits only
 * @param start how the round starts, given the rounds before
 * @param notes what is reused, which settings stay in force, and which are not used
 * @param base name of the base model
 * @param device name of the device, and why it was chosen
 * @param tokensPerSecond measured training throughput
 * @param memoryBytes memory for training
 * @param seconds estimated time of each step; without training if its length depends on the dataset
 */
public record TunePlan(
        Path repository,
        RepositoryFacts facts,
        int round,
        TuneStart start,
        List<String> notes,
        String base,
        long parameters,
        String device,
        double tokensPerSecond,
        long memoryBytes,
        Map<TuneStep, Double> seconds,
        Path output) {}
