package dev.starforge.kernels;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Plain;
import java.util.List;

/** What a backend does for {@link Dispatch}: it puts these on its queue, in the order they come, and need not wait. */
public interface Launcher {
    void launch(Launch launch);

    void zero(Tensor tensor);

    /** Copies all bytes of a tensor to one of as many bytes. */
    void copy(Tensor from, Tensor to);

    /** Memory for what one operation needs between its launches. */
    Scope scratch();

    /** Numbers that stay on the device. */
    Tensor constant(int... values);

    /** How many groups run side by side; a launch that takes its work in turns has a multiple of it. */
    int multiprocessors();

    /** Whether groups of a launch can be clusters, which reach each other's shared memory. */
    boolean clusters();

    /** Whether four simdgroups side by side multiply tiles in shared memory, which kernels named after sm_90 do. */
    boolean warpgroups();

    /**
     * A product by a library of the device's maker, if there is one that takes these types and shapes.
     *
     * @param addends what is added to it before it is rounded, each of the type of c: a row for all rows, or what has the shape of
     *     c, or both in this order
     */
    boolean product(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c);
}
