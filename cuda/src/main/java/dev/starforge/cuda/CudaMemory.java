package dev.starforge.cuda;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Memory;

/** A stretch of the GPU's memory. */
record CudaMemory(long pointer, long bytes) implements Memory {
    /** Where a tensor's first element is. */
    static long pointer(Tensor tensor) {
        return ((CudaMemory) tensor.memory()).pointer + tensor.offset();
    }
}
