package dev.starforge.tensor.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Op;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

final class SelectionTest {
    private static final Backend GPU = new Fake("gpu", 20, false, "no driver");
    private static final Backend CPU = new Fake("cpu", 10, true, "vectors of 8");
    private static final Backend SLOW = new Fake("slow", 5, true, "always there");
    private static final Backend ORACLE = new Fake("oracle", -1, true, "for checking");
    private static final List<Backend> ALL = List.of(GPU, CPU, SLOW, ORACLE);

    private record Fake(String name, int preference, boolean there, String reason) implements Backend {
        @Override
        public Probe probe() {
            Probe.DetectedDevice found =
                    new Probe.DetectedDevice(0, name, 1, true, List.of(DType.F32), "plain", "", "");
            return there ? new Probe(List.of(found), reason) : Probe.missing(reason);
        }

        @Override
        public Support supports(Op op, Spec... in) {
            return Support.NATIVE;
        }

        @Override
        public Device open(DeviceOptions options) {
            throw new DeviceException(name + ": a fake opens nothing");
        }
    }

    @Test
    void autoChoosesThePreferredAvailableBackendAndReportsWhyNotTheOthers() {
        Selection selection = Selection.choose("auto", ALL);
        assertThat(selection.backend()).isSameAs(CPU);
        assertThat(selection.reason()).isEqualTo("vectors of 8");
        assertThat(selection.others())
                .containsEntry("gpu", "no driver")
                .containsEntry("slow", "cpu is preferred")
                .containsEntry("oracle", "only when named")
                .hasSize(3);
    }

    @Test
    void autoNeverChoosesTheReference() {
        assertThatThrownBy(() -> Selection.choose("auto", List.of(GPU, ORACLE)))
                .isInstanceOf(DeviceException.class)
                .hasMessage("device auto is not available: {gpu=no driver, oracle=only when named}");
    }

    /** A backend that auto does not choose says why it is not there, if it is not. */
    @Test
    void autoReportsWhyAnUnpreferredBackendIsMissing() {
        Backend missing = new Fake("missing", -1, false, "no such system");
        assertThat(Selection.choose("auto", List.of(CPU, missing)).others()).containsEntry("missing", "no such system");
    }

    @Test
    void aRequestedBackendIsUsedAlthoughAnotherIsPreferred() {
        Selection selection = Selection.choose("oracle", ALL);
        assertThat(selection.backend()).isSameAs(ORACLE);
        assertThat(selection.reason()).isEqualTo("named; for checking");
        assertThat(selection.others()).containsEntry("cpu", "oracle was named").hasSize(3);
    }

    @Test
    void aMissingRequestedBackendIsAnErrorWithItsReason() {
        assertThatThrownBy(() -> Selection.choose("gpu", ALL))
                .isInstanceOf(DeviceException.class)
                .hasMessage("device gpu is not available: no driver");
    }

    @Test
    void anUnknownBackendIsAnErrorThatNamesTheKnownOnes() {
        assertThatThrownBy(() -> Selection.choose("tpu", ALL))
                .isInstanceOf(DeviceException.class)
                .hasMessage("device tpu is unknown; known are auto, gpu, cpu, slow, oracle");
    }

    @Test
    void theReferenceIsFoundAndOpens() {
        assertThat(Selection.backends()).extracting(Backend::name).contains("reference");
        Selection selection = Selection.choose("reference");
        try (Device device = selection.backend().open(new DeviceOptions(0, 0, Path.of("")))) {
            assertThat(device.name()).isEqualTo("reference");
        }
    }

    @Test
    void optionsAreNotNegative() {
        assertThatThrownBy(() -> new DeviceOptions(-1, 0, Path.of(""))).isInstanceOf(DeviceException.class);
        assertThatThrownBy(() -> new DeviceOptions(0, -2, Path.of(""))).isInstanceOf(DeviceException.class);
    }
}
