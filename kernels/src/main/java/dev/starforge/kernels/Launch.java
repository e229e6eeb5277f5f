package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import java.util.List;

/**
 * One kernel launch as data: a backend binds the arguments, which are in the order of the kernel's parameters, and starts x * y * z groups
 * of {@link #threads} threads.
 *
 * <p>A buffer that a kernel writes overlaps no other argument, except that it may be one of its inputs if each element is read only by the
 * thread that writes it, before it does. Metal's compiler may assume this.
 */
public record Launch(Variant variant, List<Argument> arguments, long x, long y, long z) {
    /** Threads per group of every kernel, as in the preludes. */
    public static final int GROUP = 256;

    /** Limits of CUDA; those of Metal are higher. */
    private static final long MAX_GROUPS_X = Integer.MAX_VALUE;

    private static final long MAX_GROUPS_YZ = 65535;

    public Launch {
        arguments = List.copyOf(arguments);
        if (x < 1 || y < 1 || z < 1 || x > MAX_GROUPS_X || y > MAX_GROUPS_YZ || z > MAX_GROUPS_YZ) {
            throw new DeviceException(variant + ": " + x + " x " + y + " x " + z + " groups: expected 1 to "
                    + MAX_GROUPS_X + " x " + MAX_GROUPS_YZ + " x " + MAX_GROUPS_YZ);
        }
    }

    /** Threads of each group. */
    public int threads() {
        return variant.kernel().threads();
    }

    /** Returns true if the kernel may write argument {@code i}; it may read it as well. */
    public boolean writes(int i) {
        return Signature.of(variant.kernel()).parameters().get(i).written();
    }

    /** The argument of one kernel parameter. */
    public sealed interface Argument {
        /** The elements of a tensor, for {@code IN} and {@code OUT}. */
        record Buffer(Tensor tensor) implements Argument {}

        /** A buffer that the kernel neither reads nor writes, given its other arguments. The device binds any buffer of its own. */
        record Absent(DType dtype) implements Argument {}

        /** The device's own scratch memory, {@link Dispatch#WORKSPACE} bytes. */
        record Workspace() implements Argument {}

        /** {@code ARG(int, ...)}. */
        record Int(int value) implements Argument {}

        /** {@code ARG(i64, ...)}. */
        record Long(long value) implements Argument {}

        /** {@code ARG(float, ...)}. */
        record Float(float value) implements Argument {}

        /** A struct of 64-bit integers. */
        record Struct(List<java.lang.Long> values) implements Argument {
            public Struct {
                values = List.copyOf(values);
            }
        }
    }
}
