package dev.starforge.conformance;

import org.junit.jupiter.api.Tag;

/** The vector kernels, with one thread against two, at the native width and, forced by the build, at narrower ones. */
@Tag("widths")
final class CpuConformanceTest extends BackendConformanceTest {
    CpuConformanceTest() {
        super("cpu");
    }
}
