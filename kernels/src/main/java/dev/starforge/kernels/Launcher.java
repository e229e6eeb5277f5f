package dev.starforge.kernels;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Plain;

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

    /** A product by a library of the device's maker, if there is one that takes these types and shapes. */
    boolean product(Plain.MatMul op, Tensor a, Tensor b, Tensor c);

    /** The same, added to what {@code addend} has: of the type and shape of c, and perhaps c itself. */
    boolean addProduct(Plain.MatMul op, Tensor a, Tensor b, Tensor addend, Tensor c);
}
