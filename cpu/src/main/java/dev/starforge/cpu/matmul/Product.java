package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.DType;

/** A matrix product of one shape: what it needs, and how it runs. */
public interface Product {
    /** Never less for more rows of a. */
    Scratch scratch();

    /** One product of matrices that begin at the given elements. */
    void run(Workers workers, View a, long fromA, View b, long fromB, View c, long fromC);

    /** op(a) of [m, k], which may be rounded to 8 bits where {@code int8}, times op(b) of [k, n], stored as {@code type}. */
    static Product of(boolean ta, boolean tb, DType type, long m, long n, long k, boolean int8) {
        return !ta && tb && Panels.has(type) ? new PanelMatMul(type, m, n, k, int8) : new MatMul(ta, tb, m, n, k);
    }
}
