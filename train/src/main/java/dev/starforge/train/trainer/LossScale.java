package dev.starforge.train.trainer;

import dev.starforge.train.TrainException;

/**
 * The factor of the loss that keeps fp16 gradients in range (Micikevicius et al. 2018). A step whose gradients overflow
 * halves it and is skipped; a long run of steps without overflow doubles it. It is always a power of two, so without
 * overflow or underflow it does not change results. Its state is part of a checkpoint.
 */
public final class LossScale {
    private static final double FIRST = 0x1p16;
    private static final double MOST = 0x1p24;
    private static final int PATIENCE = 2000;

    private final boolean dynamic;
    private double value;
    private int goodSteps;

    private LossScale(boolean dynamic, double value, int goodSteps) {
        this.dynamic = dynamic;
        this.value = value;
        this.goodSteps = goodSteps;
    }

    /** A constant scale of one. */
    static LossScale none() {
        return new LossScale(false, 1, 0);
    }

    static LossScale dynamic() {
        return new LossScale(true, FIRST, 0);
    }

    public double value() {
        return value;
    }

    public int goodSteps() {
        return goodSteps;
    }

    /** Restores the state from a checkpoint. */
    public void restore(double value, int goodSteps) {
        if (!(value >= 1) || Math.getExponent(value) > 1000 || Math.scalb(1.0, Math.getExponent(value)) != value) {
            throw new TrainException("loss scale: expected a power of two from 1 on, got " + value);
        }
        this.value = value;
        this.goodSteps = goodSteps;
    }

    /**
     * Updates the scale after a step.
     *
     * @return true if the step was skipped because the scale was too large
     */
    boolean update(boolean finiteLoss, boolean finiteGradient) {
        if (!dynamic) {
            return false;
        }
        if (finiteLoss && finiteGradient) {
            goodSteps++;
            if (goodSteps == PATIENCE) {
                value = Math.min(MOST, 2 * value);
                goodSteps = 0;
            }
            return false;
        }
        boolean tooLarge = finiteLoss && value > 1;
        value = Math.max(1, value / 2);
        goodSteps = 0;
        return tooLarge;
    }
}
