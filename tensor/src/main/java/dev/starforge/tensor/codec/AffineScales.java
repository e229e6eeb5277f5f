package dev.starforge.tensor.codec;

import java.util.stream.IntStream;

/**
 * The second level of scales of a K-quant block with offsets: each sub-block has an integer scale and an integer offset,
 * in units of the block's d and m.
 */
record AffineScales(float d, float m, int[] scales, int[] offsets) {
    /** The largest scale and the largest offset are {@code top} units. */
    static AffineScales largest(ScaleSearch.AffineFit[] fits, int top) {
        float largestScale = 0;
        float largestShift = 0;
        for (ScaleSearch.AffineFit fit : fits) {
            largestScale = Math.max(largestScale, fit.scale());
            largestShift = Math.max(largestShift, fit.shift());
        }
        float perScale = largestScale > 0 ? top / largestScale : 0;
        float perShift = largestShift > 0 ? top / largestShift : 0;
        int[] scales = new int[fits.length];
        int[] offsets = new int[fits.length];
        for (int s = 0; s < fits.length; s++) {
            scales[s] = CodecMath.nearest(perScale * fits[s].scale(), 0, top);
            offsets[s] = CodecMath.nearest(perShift * fits[s].shift(), 0, top);
        }
        return new AffineScales(largestScale / top, largestShift / top, scales, offsets);
    }

    /** Units of least error, weighted by what depends on each sub-block. */
    static AffineScales weighted(ScaleSearch.AffineFit[] fits, float[] weights, int top) {
        ScaleSearch.Fit scales = ScaleSearch.positive(values(fits, true), weights, top);
        ScaleSearch.Fit offsets = ScaleSearch.positive(values(fits, false), weights, top);
        return new AffineScales(scales.scale(), offsets.scale(), scales.quants(), offsets.quants());
    }

    private static float[] values(ScaleSearch.AffineFit[] fits, boolean scales) {
        float[] values = new float[fits.length];
        IntStream.range(0, fits.length).forEach(s -> values[s] = scales ? fits[s].scale() : fits[s].shift());
        return values;
    }
}
