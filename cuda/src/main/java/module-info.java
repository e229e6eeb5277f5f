/** The CUDA backend: driver and NVRTC through the Foreign Function and Memory API. */
module dev.starforge.cuda {
    requires dev.starforge.tensor;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.cuda.CudaBackend;
}
