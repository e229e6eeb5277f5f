package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.conformance.emulator.GpuModel;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;

/**
 * Runs the source of the GPU kernels in the host emulator, which also finds faults that leave the results correct, such as races.
 * The second device runs groups and threads in reverse order. By default the cases are a subset that launches every kernel
 * variant; {@code -Dfull} runs all cases, and {@code -Donly=REGEX} all matching ones. Portable kernels run from the text that Metal
 * compiles, the others from that of CUDA; {@link WarpgroupConformanceTest} and {@link MetalConformanceTest} run what dispatch chooses on
 * other GPUs.
 */
class EmulatedConformanceTest extends BackendConformanceTest {
    private @Nullable EmulatedBackend backend;
    private @Nullable CaseCoverage coverage;

    EmulatedConformanceTest() {
        super("emulator");
    }

    /** The capabilities of the device. */
    GpuModel model() {
        return GpuModel.AMPERE;
    }

    @Override
    Backend backend() {
        backend = new EmulatedBackend(model());
        boolean full = System.getProperty("full") != null || System.getProperty("only") != null;
        List<Case> cases = super.selectedCases();
        coverage = full ? CaseCoverage.all(backend, cases) : CaseCoverage.smallest(backend, cases);
        System.out.println(getClass().getSimpleName() + ": " + coverage);
        backend.compile(coverage.variants());
        return backend;
    }

    @Override
    List<Case> selectedCases() {
        return coverage == null ? super.selectedCases() : coverage.cases();
    }

    @Override
    Device twin(Backend backend, Path kernelCache) {
        return backend.open(new DeviceOptions(1, 0, kernelCache));
    }

    /** The dry runs that select the cases predict all launches. */
    @AfterAll
    void launchedEveryVariant() {
        if (backend != null && coverage != null) {
            assertThat(backend.launchedVariants()).containsAll(coverage.variants());
        }
    }
}
