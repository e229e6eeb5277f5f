package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.cpu.machine.PanelFormat;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.op.Plain;

/** A matrix product of one shape: what it needs, and how it runs, by machine code or by the Vector API. */
public interface Product {
    /** Never less for more rows of a. */
    Scratch scratch();

    /** One product of matrices that begin at the given elements. */
    void run(Workers workers, View a, long fromA, View b, long fromB, View c, long fromC);

    /** op(a) of [m, k] times op(b) of [k, n], of these types. */
    static Product of(MachineCode.Availability machine, Plain.MatMul op, DType a, DType b, long m, long n, long k) {
        boolean along = !op.transposeA() && op.transposeB(); // the rows of b
        boolean pairs = a == DType.BF16
                && b == DType.BF16
                && k % 2 == 0
                && machine.code().filter(MachineCode::multipliesBf16).isPresent();
        if (along && machine.code().isPresent() && PanelFormat.has(b, op.int8())) {
            return new MachineMatMul(machine.code().get(), b, m, n, k);
        }
        if (along && machine.code().isPresent() && DotMatMul.has(b, pairs, m, k)) {
            return new DotMatMul(machine.code().get(), b, pairs, m, n, k);
        }
        return along && Panels.has(b)
                ? new PanelMatMul(b, m, n, k, op.int8())
                : new MatMul(machine, pairs, op.transposeA(), op.transposeB(), m, n, k);
    }
}
