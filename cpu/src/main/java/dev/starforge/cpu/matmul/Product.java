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
        if (ta || !tb || !Panels.has(type)) {
            return new MatMul(ta, tb, m, n, k);
        }
        return int8 && PanelFormat.has(type) && machine.code().isPresent()
                ? new MachineMatMul(machine.code().get(), type, m, n, k)
                : new PanelMatMul(type, m, n, k, int8);
    }
}
