package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.junit.jupiter.api.DynamicContainer.dynamicContainer;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Selection;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicNode;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;

/**
 * Runs all checks of the conformance cases on a device of one backend. {@code -Donly=REGEX} selects cases by name. The test is
 * skipped if the backend finds no device.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class BackendConformanceTest {
    private static final Pattern ONLY = Pattern.compile(System.getProperty("only", ""));

    private final String name;
    private Device device;
    private Device twin;
    private Device reference;
    private Conformance conformance;

    BackendConformanceTest(String name) {
        this.name = name;
    }

    @BeforeAll
    void open(@TempDir Path kernelCache) {
        Backend backend = backend();
        Probe probe = backend.probe();
        assumeFalse(probe.devices().isEmpty(), probe.reason());
        device = backend.open(ConformanceMain.options(backend, 1, kernelCache));
        twin = twin(backend, kernelCache);
        reference = ConformanceMain.reference();
        conformance = new Conformance(backend, device, twin, reference);
    }

    /** The service of that name. Overridden for a backend that is not a service. */
    Backend backend() {
        return Selection.backends().stream()
                .filter(candidate -> candidate.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** Opens a second device that must compute the same bits. */
    Device twin(Backend backend, Path kernelCache) {
        return backend.open(ConformanceMain.options(backend, 2, kernelCache));
    }

    @AfterAll
    void close() {
        for (Device opened : new Device[] {device, twin, reference}) {
            if (opened != null) {
                opened.close();
            }
        }
    }

    /** Returns true if this test runs the case at all. */
    boolean includes(Case c) {
        return true;
    }

    List<Case> selectedCases() {
        return Cases.all().stream()
                .filter(this::includes)
                .filter(c -> ONLY.matcher(c.toString()).find())
                .toList();
    }

    @TestFactory
    Stream<DynamicNode> cases() {
        List<Case> selected = selectedCases();
        assertThat(selected).isNotEmpty();
        return selected.stream()
                .map(c -> dynamicContainer(
                        c.toString(),
                        conformance.checks(c).stream()
                                .map(check -> dynamicTest(check.name(), () -> conformance.run(check, c)))));
    }
}
