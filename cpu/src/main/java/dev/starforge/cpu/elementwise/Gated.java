package dev.starforge.cpu.elementwise;

import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.op.Fn;

/** fn(gate) * up, strip by strip. */
public final class Gated {
    private static final int STRIP = Scratch.STRIP;

    private Gated() {}

    public static void forward(Workers workers, Fn fn, View gate, View up, View y) {
        workers.strips(y.size, (from, count, s, at) -> {
            gate.load(from, count, s, at);
            Activation.apply(fn, s, at, at + STRIP, count);
            up.load(from, count, s, at + STRIP);
            Elementwise.mul(s, at, at + STRIP, count);
            y.store(from, count, s, at);
        });
    }

    /** (gate, up, dy) -> dgate, dup. */
    public static void gradient(Workers workers, Fn fn, View[] in, View[] out) {
        workers.strips(out[0].size, (from, count, s, at) -> {
            int slope = at;
            int value = at + STRIP;
            int other = at + 2 * STRIP;
            int dy = at + 3 * STRIP;
            in[0].load(from, count, s, slope);
            in[0].load(from, count, s, value);
            in[2].load(from, count, s, dy);
            Activation.slope(fn, s, slope, other, count);
            Activation.apply(fn, s, value, other, count);
            in[1].load(from, count, s, other);
            Elementwise.mul(s, slope, other, count);
            Elementwise.mul(s, slope, dy, count);
            Elementwise.mul(s, value, dy, count);
            out[0].store(from, count, s, slope);
            out[1].store(from, count, s, value);
        });
    }
}
