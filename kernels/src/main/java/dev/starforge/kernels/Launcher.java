package dev.starforge.kernels;

import dev.starforge.tensor.Tensor;

/** What a backend does for {@link Dispatch}: it puts these on its queue, in the order they come, and need not wait. */
public interface Launcher {
    void launch(Launch launch);

    void zero(Tensor tensor);

    /** Copies all bytes of a tensor to one of as many bytes. */
    void copy(Tensor from, Tensor to);
}
