package dev.starforge.conformance;

import org.junit.jupiter.api.Tag;

/** The CPU's vector kernels, with one and two threads, at the native vector width and, in other executions of the build, at narrower ones. */
@Tag("widths")
final class CpuConformanceTest extends BackendConformanceTest {
    CpuConformanceTest() {
        super("cpu");
    }
}
