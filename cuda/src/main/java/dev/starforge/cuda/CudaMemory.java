package dev.starforge.cuda;

import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Tensor;

/** An allocation of GPU memory. */
record CudaMemory(long pointer, long bytes) implements Memory {
    /** The device pointer of a tensor's first element. */
    static long pointer(Tensor tensor) {
        return ((CudaMemory) tensor.memory()).pointer + tensor.offset();
    }
}
