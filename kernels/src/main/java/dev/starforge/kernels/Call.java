package dev.starforge.kernels;

import dev.starforge.kernels.Launch.Argument;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import java.util.ArrayList;
import java.util.List;

/** A launch as it is put together: macros in the order of their names, arguments in the order of parameters, groups last. */
final class Call {
    private final Launcher launcher;
    private final Kernel kernel;
    private final List<String> defines = new ArrayList<>();
    private final List<Argument> arguments = new ArrayList<>();

    Call(Launcher launcher, Kernel kernel) {
        this.launcher = launcher;
        this.kernel = kernel;
    }

    /** Specializes a buffer's element type; float32 is what it is unless said. */
    Call type(String name, DType type) {
        if (type != DType.F32) {
            defines.add(name + " " + Variant.spelled(type));
        }
        return this;
    }

    Call tensors(Tensor... tensors) {
        for (Tensor tensor : tensors) {
            arguments.add(new Argument.Buffer(tensor));
        }
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

    /** One thread for each of {@code elements}. */
    void elements(long elements) {
        groups(Math.ceilDiv(elements, Launch.GROUP));
    }

    void groups(long x) {
        groups(x, 1, 1);
    }

    /** So many groups; none at all when one of the counts is 0, which is how empty outputs are computed. */
    void groups(long x, long y, long z) {
        if (x != 0 && y != 0 && z != 0) {
            launcher.launch(new Launch(new Variant(kernel, defines), arguments, x, y, z));
        }
    }
}
