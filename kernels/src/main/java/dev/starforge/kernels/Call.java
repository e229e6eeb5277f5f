package dev.starforge.kernels;

import dev.starforge.kernels.Launch.Argument;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Fn;
import java.util.ArrayList;
import java.util.List;

/** A launch as it is put together: arguments in the order of parameters, groups last. */
final class Call {
    /** A group that works on columns has as many as a simdgroup has lanes. */
    static final int COLUMNS = 32;

    /** Elements from which on a thread has {@link #EACH}: so many threads have enough to do between them. */
    private static final long MANY = 1 << 16;

    private static final int EACH = 8;

    private final Launcher launcher;
    private final Kernel kernel;
    private final List<Argument> arguments = new ArrayList<>();
    private final List<String> defines = new ArrayList<>();

    Call(Launcher launcher, Kernel kernel) {
        this.launcher = launcher;
        this.kernel = kernel;
    }

    Call tensors(Tensor... tensors) {
        for (Tensor tensor : tensors) {
            arguments.add(new Argument.Buffer(tensor));
        }
        return this;
    }

    /** A macro, besides those that arguments' types are. */
    Call define(String name, Object value) {
        defines.add(name + " " + value);
        return this;
    }

    Call workspace() {
        arguments.add(new Argument.Workspace());
        return this;
    }

    Call i64(long value) {
        arguments.add(new Argument.Long(value));
        return this;
    }

    /** A 32-bit integer; a dimension that does not fit is refused. */
    Call i32(long value) {
        if (value != (int) value) {
            throw new DeviceException(kernel.symbol() + ": " + value + " does not fit into 32 bits");
        }
        arguments.add(new Argument.Int((int) value));
        return this;
    }

    Call flag(boolean value) {
        return i32(value ? 1 : 0);
    }

    Call f32(double value) {
        arguments.add(new Argument.Float((float) value));
        return this;
    }

    Call struct(List<Long> values) {
        arguments.add(new Argument.Struct(values));
        return this;
    }

    /** A function of an elementwise kernel, known when it is compiled where there are many elements. */
    Call function(Fn fn, long elements) {
        return (elements < MANY ? this : define("FN", Dispatch.code(fn))).i32(Dispatch.code(fn));
    }

    /** One thread for each of {@code elements}. */
    void elements(long elements) {
        groups(Math.ceilDiv(elements, Launch.GROUP));
    }

    /** The same for a kernel whose threads have several where there are many. */
    void each(long elements) {
        int each = elements < MANY ? 1 : EACH;
        if (each > 1) {
            define("EACH", each);
        }
        groups(Math.ceilDiv(elements, (long) each * Launch.GROUP));
    }

    void groups(long x) {
        groups(x, 1, 1);
    }

    /** So many groups; none at all when one of the counts is 0, which is how empty outputs are computed. */
    void groups(long x, long y, long z) {
        if (x != 0 && y != 0 && z != 0) {
            launcher.launch(new Launch(Signature.of(kernel).variant(arguments, defines), arguments, x, y, z));
        }
    }

    /** Whether sixteen bytes can be read at once. */
    static boolean aligned(Tensor tensor) {
        return tensor.offset() % 16 == 0;
    }

    /** A macro without a value, for a tensor where that is not so. */
    Call unaligned(String name, Tensor tensor) {
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
