package dev.starforge.cuda;

import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Tensor;

/** A stretch of the GPU's memory. */
record CudaMemory(long pointer, long bytes) implements Memory {
    /** Where a tensor's first element is. */
    static long pointer(Tensor tensor) {
        return ((CudaMemory) tensor.memory()).pointer + tensor.offset();
    }
}
