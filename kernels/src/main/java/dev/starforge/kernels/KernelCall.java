package dev.starforge.kernels;

import dev.starforge.kernels.Launch.Argument;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Fn;
import java.util.ArrayList;
import java.util.List;

/** Builder of a {@link Launch}: arguments in the order of parameters, groups last. */
final class KernelCall {
    /** Columns per group of kernels that sum columns: one per lane. */
    static final int COLUMNS_PER_GROUP = 32;

    /** Tensors with at least this many elements use {@link #ELEMENTS_PER_THREAD}. */
    private static final long UNROLL_MIN_ELEMENTS = 1 << 16;

    private static final int ELEMENTS_PER_THREAD = 8;

    private final Launcher launcher;
    private final Kernel kernel;
    private final List<Argument> arguments = new ArrayList<>();
    private final List<String> defines = new ArrayList<>();

    KernelCall(Launcher launcher, Kernel kernel) {
        this.launcher = launcher;
        this.kernel = kernel;
    }

    KernelCall tensors(Tensor... tensors) {
        for (Tensor tensor : tensors) {
            arguments.add(new Argument.Buffer(tensor));
        }
        return this;
    }

    /** A parameter that the kernel ignores, given its other arguments, with the type that its buffer would have. */
    KernelCall absent(DType dtype) {
        arguments.add(new Argument.Absent(dtype));
        return this;
    }

    /** Defines a macro, besides those of the argument types. */
    KernelCall define(String name, Object value) {
        defines.add(name + " " + value);
        return this;
    }

    KernelCall workspace() {
        arguments.add(new Argument.Workspace());
        return this;
    }

    KernelCall i64(long value) {
        arguments.add(new Argument.Long(value));
        return this;
    }

    /** A 32-bit integer. Fails if a dimension does not fit. */
    KernelCall i32(long value) {
        if (value != (int) value) {
            throw new DeviceException(kernel.symbol() + ": " + value + " does not fit into 32 bits");
        }
        arguments.add(new Argument.Int((int) value));
        return this;
    }

    KernelCall flag(boolean value) {
        return i32(value ? 1 : 0);
    }

    KernelCall f32(double value) {
        arguments.add(new Argument.Float((float) value));
        return this;
    }

    KernelCall struct(List<Long> values) {
        arguments.add(new Argument.Struct(values));
        return this;
    }

    /** The function of an elementwise kernel, a compile-time constant for large tensors. */
    KernelCall function(Fn fn, long elements) {
        return (elements < UNROLL_MIN_ELEMENTS ? this : define("FN", Dispatch.code(fn))).i32(Dispatch.code(fn));
    }

    /** Launches one thread per element. */
    void elements(long elements) {
        groups(Math.ceilDiv(elements, Launch.GROUP));
    }

    /** Launches several elements per thread if there are many. */
    void elementsUnrolled(long elements) {
        int each = elements < UNROLL_MIN_ELEMENTS ? 1 : ELEMENTS_PER_THREAD;
        if (each > 1) {
            define("ELEMENTS_PER_THREAD", each);
        }
        groups(Math.ceilDiv(elements, (long) each * Launch.GROUP));
    }

    void groups(long x) {
        groups(x, 1, 1);
    }

    /** Launches a grid of groups; nothing if one of the counts is 0, as for empty outputs. */
    void groups(long x, long y, long z) {
        if (x != 0 && y != 0 && z != 0) {
            requireSupport();
            launcher.launch(new Launch(Signature.of(kernel).variant(arguments, defines), arguments, x, y, z));
        }
    }

    private void requireSupport() {
        int shared = kernel.sharedBytes(launcher.sharedLimit());
        if (shared > launcher.sharedLimit()) {
            throw new DeviceException(kernel.symbol() + ": needs " + shared + " bytes of shared memory, the device has "
                    + launcher.sharedLimit());
        }
        if (kernel.sibling().isPresent()
                && !launcher.siblings().contains(kernel.sibling().get())) {
            throw new DeviceException(
                    kernel.symbol() + ": needs " + kernel.sibling().get() + ", the device has " + launcher.siblings());
        }
    }

    /** Returns true if 16-byte loads are aligned. */
    static boolean aligned(Tensor tensor) {
        return tensor.offset() % 16 == 0;
    }

    /** Defines a macro if a tensor is not aligned. */
    KernelCall unaligned(String name, Tensor tensor) {
        return aligned(tensor) ? this : define(name, 1);
    }

    static long groups(long items, long each) {
        return Math.ceilDiv(items, each);
    }

    static long size(Tensor tensor) {
        return tensor.shape().size();
    }

    /** Elements below the first dimension. */
    static long width(Tensor tensor) {
        return tensor.dim(0) == 0 ? 0 : size(tensor) / tensor.dim(0);
    }
}
