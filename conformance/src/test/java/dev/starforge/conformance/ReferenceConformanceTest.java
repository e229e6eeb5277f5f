package dev.starforge.conformance;

/** The oracle against itself: its gradients against its own finite differences, its loops against the expansions. */
final class ReferenceConformanceTest extends BackendConformanceTest {
    ReferenceConformanceTest() {
        super("reference");
    }
}
