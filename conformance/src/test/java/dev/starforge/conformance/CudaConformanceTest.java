package dev.starforge.conformance;

/** The GPU kernels on an NVIDIA GPU. */
final class CudaConformanceTest extends BackendConformanceTest {
    CudaConformanceTest() {
        super("cuda");
    }
}
