package dev.starforge.conformance;

/** The GPU kernels, where there is a GPU. */
final class CudaConformanceTest extends BackendConformanceTest {
    CudaConformanceTest() {
        super("cuda");
    }
}
