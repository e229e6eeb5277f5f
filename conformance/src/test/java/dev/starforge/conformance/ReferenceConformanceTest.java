package dev.starforge.conformance;

/** The reference: its gradients against finite differences, its kernels against the expansions. */
final class ReferenceConformanceTest extends BackendConformanceTest {
    ReferenceConformanceTest() {
        super("reference");
    }
}
