import org.jspecify.annotations.NullMarked;

/** The CUDA backend: driver and NVRTC through the Foreign Function and Memory API. */
@NullMarked
module dev.starforge.cuda {
    requires dev.starforge.kernels;
    requires dev.starforge.tensor;
    requires static org.jspecify;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.cuda.CudaBackend;
}
