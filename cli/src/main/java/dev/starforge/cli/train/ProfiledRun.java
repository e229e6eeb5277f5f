package dev.starforge.cli.train;

import dev.starforge.tensor.DType;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.corpus.DataFacts;
import dev.starforge.train.plan.ProfiledDevice;
import dev.starforge.train.plan.StepProfile;
import java.util.Optional;

/** Profiles the operations of each step after the warm-up steps, but not the work between steps. */
public final class ProfiledRun implements RunEvents {
    private static final int WARM = 4;

    private final RunEvents events;
    private final ProfiledDevice device;
    private int steps;
    private long tokens;
    private double stepSeconds;

    public ProfiledRun(RunEvents events, ProfiledDevice device) {
        this.events = events;
        this.device = device;
    }

    @Override
    public void stepStarted(long step) {
        events.stepStarted(step);
        if (steps >= WARM) {
            device.start();
        }
    }

    @Override
    public void step(Step step) {
        device.stop();
        steps++;
        if (steps == WARM) {
            stepSeconds = (step.tokens() - tokens) / step.tokensPerSecond();
        }
        tokens = step.tokens();
        events.step(step);
    }

    /** The profile; empty if the run was too short. */
    public Optional<StepProfile> profile(DType compute) {
        return steps > WARM
                ? Optional.of(new StepProfile(steps - WARM, stepSeconds, device.peak(compute), device.rows()))
                : Optional.empty();
    }

    @Override
    public void data(String split, DataFacts facts) {
        events.data(split, facts);
    }

    @Override
    public void evaluating(long step, long done, long all, double seconds) {
        events.evaluating(step, done, all, seconds);
    }

    @Override
    public void evaluated(long step, double loss, boolean best) {
        events.evaluated(step, loss, best);
    }

    @Override
    public void note(String text) {
        events.note(text);
    }
}
