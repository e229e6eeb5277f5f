package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.cpu.machine.PanelFormat;
import dev.starforge.tensor.DType;

/** A matrix product of one shape: what it needs, and how it runs, by machine code or by the Vector API. */
public interface Product {
    /** Never less for more rows of a. */
    Scratch scratch();

    /** One product of matrices that begin at the given elements. */
    void run(Workers workers, View a, long fromA, View b, long fromB, View c, long fromC);

    /** op(a) of [m, k], which may be rounded to 8 bits where {@code int8}, times op(b) of [k, n], stored as {@code type}. */
    static Product of(
            MachineCode.Choice machine, boolean ta, boolean tb, DType type, long m, long n, long k, boolean int8) {
        boolean along = !ta && tb; // the rows of b
        if (along && machine.code().isPresent() && PanelFormat.has(type, int8)) {
            return new MachineMatMul(machine.code().get(), type, m, n, k);
        }
        if (along && machine.code().isPresent() && DotMatMul.has(type, m, k)) {
            return new DotMatMul(machine.code().get(), type, m, n, k);
        }
        return along && Panels.has(type) ? new PanelMatMul(type, m, n, k, int8) : new MatMul(machine, ta, tb, m, n, k);
    }
}
