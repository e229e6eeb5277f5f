package dev.starforge.metal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Plain;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The device as callers see it, on the stand-in for Metal. */
class MetalDeviceTest {
    private static final int SIZE = 1000;

    private StandIn standIn;
    private Device device;
    private Scope scope;

    @BeforeEach
    void open() {
        standIn = StandIn.open();
        standIn.violations();
        device = new MetalBackend().open(new DeviceOptions(0, 0, Path.of("target", "kernels")));
        scope = new Scope(device);
    }

    @AfterEach
    void close() {
        scope.close();
        device.close();
        String violations = standIn.violations();
        String live = standIn.live();
        standIn.close();
        assertThat(violations).isEmpty();
        assertThat(live).isEmpty();
    }

    private Tensor tensor(float first) {
        float[] values = new float[SIZE];
        for (int i = 0; i < SIZE; i++) {
            values[i] = first + i;
        }
        Tensor tensor = scope.allocate(Spec.f32(SIZE));
        device.write(tensor, values);
        return tensor;
    }

    private void add(Tensor a, Tensor b, Tensor sum) {
        device.run(new Plain.Add(), new Tensor[] {a, b}, new Tensor[] {sum});
    }

    @Test
    void isSelectedOnlyIfNamed() {
        assertThat(Selection.choose("metal").backend().name()).isEqualTo("metal");
        assertThat(Selection.choose("auto").backend().name()).isNotEqualTo("metal");
        standIn.close();
        assertThatThrownBy(() -> Selection.choose("metal"))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("not macOS");
    }

    @Test
    void dependentLaunchesRunInOrder() {
        Tensor a = tensor(1);
        Tensor b = tensor(2);
        Tensor c = scope.allocate(Spec.f32(SIZE));
        Tensor d = scope.allocate(Spec.f32(SIZE));
        long before = standIn.count(StandIn.Event.COMMAND_BUFFER);
        for (int i = 0; i < 100; i++) {
            add(a, b, c);
            add(c, b, d);
            add(d, b, a);
        }
        assertThat(device.floats(a)[0]).isEqualTo(601);
        assertThat(standIn.count(StandIn.Event.COMMAND_BUFFER) - before).isEqualTo(300 / 50);
    }

    @Test
    void independentLaunchesNeedNoBarrier() {
        Tensor a = tensor(1);
        Tensor b = tensor(2);
        long before = standIn.count(StandIn.Event.BARRIER);
        for (int i = 0; i < 10; i++) {
            add(a, b, scope.allocate(Spec.f32(SIZE)));
        }
        device.synchronize();
        add(a, b, a); // ordered by the fence
        device.synchronize();
        assertThat(standIn.count(StandIn.Event.BARRIER)).isEqualTo(before);
    }

    /** Values written while launches are queued must not change what those launches read. */
    @Test
    void writesAreQueuedBehindLaunches() {
        Tensor a = tensor(1);
        Tensor b = tensor(2);
        Tensor first = scope.allocate(Spec.f32(SIZE));
        Tensor second = scope.allocate(Spec.f32(SIZE));
        add(a, b, first);
        device.write(a, new float[SIZE]);
        float[] ones = new float[SIZE];
        Arrays.fill(ones, 1);
        device.write(b, ones);
        add(a, b, second);
        assertThat(device.floats(first)[0]).isEqualTo(3);
        assertThat(device.floats(second)).containsOnly(1);
    }

    @Test
    void writesAreQueuedBehindReplays() {
        Tensor a = tensor(1);
        Tensor b = tensor(2);
        Tensor sum = scope.allocate(Spec.f32(SIZE));
        device.replay("step", () -> add(a, b, sum));
        device.synchronize();
        device.replay("step", () -> add(a, b, sum));
        device.write(a, new float[SIZE]);
        assertThat(device.floats(sum)[0]).isEqualTo(3);
        assertThat(device.floats(a)[0]).isEqualTo(0);
        device.forget("step");
    }

    @Test
    void manyWritesReuseTheStagingMemory() {
        Tensor a = tensor(1);
        Tensor b = tensor(2);
        Tensor sum = scope.allocate(Spec.f32(SIZE));
        for (int i = 0; i < 1200; i++) {
            add(a, b, sum);
            device.write(a, new float[SIZE]);
        }
        add(a, b, sum);
        assertThat(device.floats(sum)[1]).isEqualTo(3);
    }

    @Test
    void memoryIsReleasedAfterItsLaunches() {
        Tensor a = tensor(1);
        try (Scope inner = new Scope(device)) {
            add(a, a, inner.allocate(Spec.f32(SIZE)));
        }
        device.replay("step", () -> add(a, a, a));
        device.replay("step", () -> add(a, a, a));
        device.forget("step");
        assertThat(device.floats(a)[0]).isEqualTo(4);
    }

    @Test
    void replayedStepUsesWhatWasWrittenSince() {
        Tensor a = tensor(1);
        Tensor b = tensor(2);
        Tensor c = scope.allocate(Spec.f32(SIZE));
        Tensor d = scope.allocate(Spec.f32(SIZE));
        int[] runs = {0};
        for (int i = 0; i < 5; i++) {
            float[] values = new float[SIZE];
            values[0] = i;
            device.write(a, values);
            device.replay("step", () -> {
                runs[0]++;
                add(a, b, c);
                add(c, c, d);
            });
            assertThat(device.floats(d)[0]).isEqualTo(2 * (i + 2));
        }
        assertThat(runs[0]).isEqualTo(2);
        add(a, a, d); // not part of the step
        assertThat(device.floats(d)[0]).isEqualTo(8);
        device.forget("step");
    }

    @Test
    void longStepIsReplayedInOrder() {
        Tensor a = tensor(0);
        Tensor one = tensor(1);
        for (int i = 0; i < 3; i++) {
            device.replay("long", () -> {
                for (int j = 0; j < 1000; j++) {
                    add(a, one, a);
                }
            });
        }
        assertThat(device.floats(a)[0]).isEqualTo(3000);
    }

    @Test
    void recordedStepMayNotReadOrReserve() {
        Tensor a = tensor(1);
        device.replay("reads", () -> {});
        assertThatThrownBy(() -> device.replay("reads", () -> device.floats(a)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("not while a step is recorded");
        device.replay("reserves", () -> {});
        assertThatThrownBy(() -> device.replay("reserves", () -> device.reserve(1)))
                .hasMessageContaining("more memory than in its first run");
        assertThatThrownBy(() -> device.replay("a", () -> device.replay("b", () -> {})))
                .hasMessageContaining("inside another replayed step");
    }

    @Test
    void stepsLeaveNothingBehind() {
        Tensor a = tensor(1);
        Tensor b = tensor(2);
        Tensor c = scope.allocate(Spec.f32(SIZE));
        String settled = "";
        for (int i = 0; i < 1000; i++) {
            add(a, b, c);
            device.replay("step", () -> add(a, b, c));
            device.floats(c);
            if (i == 2) {
                settled = standIn.live();
            }
        }
        assertThat(standIn.live()).isEqualTo(settled);
    }

    @Test
    void failedCommandBufferIsReportedAtTheNextRead() {
        Tensor a = tensor(1);
        Tensor c = scope.allocate(Spec.f32(SIZE));
        standIn.set("fails with", 2);
        add(a, a, c);
        assertThatThrownBy(() -> device.floats(c))
                .isInstanceOf(DeviceException.class)
                .isNotInstanceOf(MemoryException.class)
                .hasMessageContaining("metal:0: the GPU could not run a command buffer")
                .hasMessageContaining("(code 2)");
        add(a, a, c);
        assertThat(device.floats(c)[0]).isEqualTo(2);
    }

    @Test
    void outOfMemoryOfTheGpuIsTyped() {
        Tensor a = tensor(1);
        standIn.set("fails with", 8);
        add(a, a, a);
        assertThatThrownBy(() -> device.synchronize()).isInstanceOf(MemoryException.class);
    }

    @Test
    void memoryBudgetIsTheWorkingSet() {
        standIn.set("working set", 32 << 20);
        try (Device small = new MetalBackend().open(new DeviceOptions(0, 0, Path.of("target")))) {
            assertThatThrownBy(() -> small.reserve(40 << 20))
                    .isInstanceOf(MemoryException.class)
                    .hasMessageStartingWith("metal:0: reserve 41943040 bytes: this process has allocated ")
                    .hasMessageContaining("working set of 33554432");
        } finally {
            standIn.set("working set", 5L << 30);
        }
    }

    /** A device that cannot be opened leaves nothing behind. */
    @Test
    void largestBufferIsALimit() {
        standIn.set("largest buffer", 1 << 20);
        assertThatThrownBy(() -> new MetalBackend().open(new DeviceOptions(0, 0, Path.of("target"))))
                .isInstanceOf(MemoryException.class)
                .hasMessageContaining("a buffer of this GPU has at most 1048576");
        standIn.set("largest buffer", 4L << 30);
        assertThatThrownBy(() -> device.reserve(6L << 30)).isInstanceOf(MemoryException.class);
    }

    /** A message that a system does not know would end the process, so none is sent before the version is known. */
    @Test
    void refusesOlderSystemsAndOtherGpus() {
        standIn.set("macos", 13);
        String old = new MetalBackend().probe().reason();
        standIn.set("macos", 14);
        standIn.set("family", 0);
        String intel = new MetalBackend().probe().reason();
        standIn.set("family", 1007);
        standIn.set("devices", 0);
        String none = new MetalBackend().probe().reason();
        standIn.set("devices", 1);
        assertThat(old).isEqualTo("macOS 13.5 is too old: Metal needs macOS 14 or newer");
        assertThat(intel).endsWith("Metal needs Apple silicon (M1 or newer), not an Intel Mac");
        assertThat(none).isEqualTo("Metal is installed, but there is no GPU");
    }

    /** Math modes and residency sets are used where the system has them. */
    @Test
    void usesWhatNewerSystemsHave() {
        standIn.set("macos", 15);
        try (Device newer = new MetalBackend().open(new DeviceOptions(0, 0, Path.of("target")));
                Scope own = new Scope(newer)) {
            Tensor a = own.allocate(Spec.f32(2));
            newer.write(a, 1f, 2f);
            newer.run(new Plain.Add(), new Tensor[] {a, a}, new Tensor[] {a});
            assertThat(newer.floats(a)).containsExactly(2, 4);
            assertThat(standIn.live()).contains("MTLResidencySet 1");
        } finally {
            standIn.set("macos", 14);
        }
    }

    /** The first region can be mapped, the second begins where kernels cannot load 16 bytes at once. */
    @ParameterizedTest
    @ValueSource(longs = {20_000, 20_008})
    void readsMappedFiles(long from, @TempDir Path folder) throws IOException {
        Path file = folder.resolve("weights");
        ByteBuffer bytes = ByteBuffer.allocate((int) from + 4 * SIZE).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < SIZE; i++) {
            bytes.putFloat((int) from + 4 * i, i);
        }
        Files.write(file, bytes.array());
        FileRegion region = new FileRegion(file, from, 4 * SIZE);
        assertThat(device.maps(DType.F32)).isTrue();
        assertThat(MetalMemory.canMap(region)).isEqualTo(from % 16 == 0);
        Tensor mapped = scope.map(Spec.f32(SIZE), region);
        Tensor sum = scope.allocate(Spec.f32(SIZE));
        add(mapped, tensor(1), sum);
        assertThat(device.floats(sum)).startsWith(1, 3, 5).endsWith(2 * SIZE - 1);
        assertThat(device.floats(mapped)).startsWith(0, 1, 2);
        FileRegion tooLong = new FileRegion(file, from, 4 * SIZE + 16);
        assertThatThrownBy(() -> device.map(DType.F32, tooLong))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("the file ends at");
    }

    @Test
    void belongsToItsThread() throws InterruptedException {
        Throwable[] thrown = new Throwable[1];
        Thread other = Thread.ofPlatform().start(() -> {
            try {
                device.synchronize();
            } catch (DeviceException e) {
                thrown[0] = e;
            }
        });
        other.join();
        assertThat(thrown[0]).hasMessageContaining("belongs to thread");
    }
}
