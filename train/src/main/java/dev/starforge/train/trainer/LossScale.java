package dev.starforge.train.trainer;

import dev.starforge.train.TrainException;

/**
 * What the loss is multiplied with so that its gradients stay within the range of half precision (Micikevicius et al.
 * 2018): halved by a step whose gradients overflow, which is then skipped, and doubled after a long run of steps without.
 * Always a power of two, so that where nothing overflows and nothing is lost below, it does not change a bit. Its state is
 * part of a checkpoint.
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

    /** Always one. */
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
     * Learns how a step went.
     *
     * @return whether it was skipped for the scale's sake, so that the next one may do better
     */
    boolean after(boolean finiteLoss, boolean finiteGradient) {
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
