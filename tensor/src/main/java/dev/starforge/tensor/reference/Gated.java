package dev.starforge.tensor.reference;

import dev.starforge.tensor.op.Fn;

final class Gated {
    private Gated() {}

    static void forward(Fn fn, View gate, View up, View y) {
        for (long i = 0; i < y.size; i++) {
            y.set(i, fn.apply(gate.at(i)) * up.at(i));
        }
    }

    /** (gate, up, dy) -> dgate, dup. */
    static void gradient(Fn fn, View[] in, View[] out) {
        for (long i = 0; i < out[0].size; i++) {
            out[0].set(i, fn.slope(in[0].at(i)) * in[1].at(i) * in[2].at(i));
            out[1].set(i, fn.apply(in[0].at(i)) * in[2].at(i));
        }
    }
}
