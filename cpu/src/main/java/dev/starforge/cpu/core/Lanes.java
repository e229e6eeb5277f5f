package dev.starforge.cpu.core;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The vector every kernel uses: the widest the machine has, but never wider than the sixteen lanes sums are defined with,
 * nor narrower than four, which kernels are written for and the API emulates where it must.
 */
public final class Lanes {
    public static final VectorSpecies<Float> SPECIES =
            switch (Math.clamp(FloatVector.SPECIES_PREFERRED.length(), 4, 16)) {
                case 4 -> FloatVector.SPECIES_128;
                case 8 -> FloatVector.SPECIES_256;
                default -> FloatVector.SPECIES_512;
            };

    /** Floats in a vector: 4, 8 or 16. */
    public static final int WIDTH = SPECIES.length();

    private Lanes() {}

    /** The least multiple of {@code step} that holds {@code count}. */
    public static int pad(long count, int step) {
        return Math.toIntExact((count + step - 1) / step * step);
    }
}
