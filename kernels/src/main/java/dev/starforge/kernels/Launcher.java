package dev.starforge.kernels;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Plain;
import java.util.List;
import java.util.Set;

/** The operations that {@link Dispatch} needs of a backend. They are queued in order and need not complete before the call returns. */
public interface Launcher {
    void launch(Launch launch);

    void zero(Tensor tensor);

    /** Copies the bytes of a tensor to one of the same size. */
    void copy(Tensor from, Tensor to);

    /** Scratch memory of one operation. */
    Scope scratch();

    /** Uploads values that stay on the device. */
    Tensor constant(int... values);

    /** Multiprocessors of the device; grid-stride launches have a multiple of this many groups. */
    int multiprocessors();

    /** Returns true if the device has thread block clusters with distributed shared memory. */
    boolean supportsClusters();

    /** The kernels that the device runs besides the portable ones. */
    Set<Sibling> siblings();

    /** Bytes of shared memory that a group may have; the prelude's SHARED_LIMIT is at most this. */
    int sharedLimit();

    /**
     * Computes a product with a vendor library. Returns false if no library supports these types and shapes.
     *
     * @param addends added before the result is rounded, with the type of c: a row for all rows, or a tensor of the shape of c, or
     *     both in this order
     */
    boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c);
}
