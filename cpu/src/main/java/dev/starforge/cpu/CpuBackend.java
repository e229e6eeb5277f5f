package dev.starforge.cpu;

import com.sun.management.OperatingSystemMXBean;
import dev.starforge.cpu.attention.HeadTile;
import dev.starforge.cpu.core.Cores;
import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;

/** The machine itself: always there, preferred to nothing but the reference. */
public final class CpuBackend implements Backend {
    private static final Path CPUS = Path.of("/proc/cpuinfo");
    private static final Path MEMORY = Path.of("/proc/meminfo");

    @Override
    public String name() {
        return "cpu";
    }

    @Override
    public int preference() {
        return 10;
    }

    @Override
    public Probe probe() {
        int bits = Lanes.SPECIES.vectorBitSize();
        int cores = Cores.ofMachine().count();
        Probe.DetectedDevice found = new Probe.DetectedDevice(
                0,
                field(CPUS, "model name", "CPU"),
                memory(),
                true,
                List.of(DType.F32, DType.BF16, DType.F16),
                "tiled",
                "a running softmax over tiles of " + HeadTile.KEYS
                        + " keys; lanes run along the head, so one query costs as little as its arithmetic",
                bits + "-bit vectors, " + cores + " cores");
        return new Probe(
                List.of(found),
                "Vector API, " + bits + "-bit vectors, " + cores + " cores; machine code: " + machineCode());
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Support.NATIVE;
    }

    @Override
    public Device open(DeviceOptions options) {
        if (options.index() != 0) {
            throw new DeviceException("cpu: no device " + options.index() + "; there is only 0");
        }
        int threads = options.threads() == 0 ? Cores.ofMachine().count() : options.threads();
        return new CpuDevice(threads, MachineCode.choose(options.hidden()));
    }

    /** Whether there is some here, and why not. */
    private static String machineCode() {
        MachineCode.Availability choice = MachineCode.choose(Set.of());
        choice.code().ifPresent(MachineCode::close);
        return choice.code().isPresent() ? choice.reason() : "none, " + choice.reason();
    }

    /**
     * Returns the physical memory, since tensors are outside the heap: from /proc/meminfo, which is faster to read, or
     * from the JVM.
     */
    private static long memory() {
        String[] total = field(MEMORY, "MemTotal", "").split(" ");
        return total[0].matches("[0-9]+")
                ? Long.parseLong(total[0]) * 1024
                : ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class)
                        .getTotalMemorySize();
    }

    private static String field(Path file, String name, String otherwise) {
        try {
            for (String line : Files.readAllLines(file)) {
                int colon = line.indexOf(':');
                if (colon > 0 && line.substring(0, colon).strip().equals(name)) {
                    return line.substring(colon + 1).strip();
                }
            }
        } catch (IOException | RuntimeException e) {
            return otherwise;
        }
        return otherwise;
    }
}
