package dev.starforge.conformance.emulator;

import dev.starforge.kernels.Dispatch;
import dev.starforge.kernels.Kernel;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;

/** The emulator as a backend, for the conformance suite. Its second device runs groups and threads in reverse order. */
public final class EmulatedBackend implements Backend {
    private final Emulator emulator;
    private final Set<Variant> launched = ConcurrentHashMap.newKeySet();
    private final GpuModel model;

    /** An Ampere GPU. */
    public EmulatedBackend() {
        this(GpuModel.AMPERE);
    }

    public EmulatedBackend(GpuModel model) {
        this(model, model.equals(GpuModel.APPLE) ? Emulator.requireMetal() : Emulator.require());
    }

    private EmulatedBackend(GpuModel model, Emulator emulator) {
        this.model = model;
        this.emulator = emulator;
    }

    @Override
    public String name() {
        return "emulator";
    }

    @Override
    public int preference() {
        return -1;
    }

    @Override
    public Probe probe() {
        Probe.DetectedDevice found = new Probe.DetectedDevice(
                0,
                "GPU kernels on the host",
                Runtime.getRuntime().maxMemory(),
                true,
                List.of(DType.F32, DType.BF16, DType.F16),
                "plain",
                "the portable one",
                "fibers");
        return new Probe(List.of(found), "compiled by the system's C++ compiler");
    }

    /** Opens a device that runs nothing and reports what {@link #open} would launch. */
    public Device openDry(Consumer<Variant> launched) {
        return new DryDevice(model, launched);
    }

    /** Compiles variants in parallel. All others are compiled at their first launch. */
    public void compile(Set<Variant> variants) {
        units(variants).values().parallelStream().forEach(each -> emulator.compile(each, UnaryOperator.identity()));
    }

    /** What Metal would refuse of these variants, which {@link MslCheck} finds, by program. */
    public Map<String, List<String>> metalFaults(Set<Variant> variants) {
        Map<String, List<String>> faults = new ConcurrentSkipListMap<>();
        Map<String, Variant> units = units(variants);
        units.values().parallelStream().forEach(variant -> {
            MslCheck check = MslCheck.of(Emulator.requireMsl(), variant.program(Emulator.METAL_PRELUDE));
            List<String> found = new ArrayList<>(check.faults());
            for (Kernel kernel : Kernel.values()) {
                int bytes = check.sharedBytes().getOrDefault(kernel.symbol(), 0);
                if (kernel.file().equals(variant.kernel().file())
                        && bytes != kernel.sharedBytes(MslCheck.MAX_SHARED_BYTES)) {
                    found.add(kernel.symbol() + ": declares " + bytes + " bytes of threadgroup memory, Kernel has "
                            + kernel.sharedBytes(MslCheck.MAX_SHARED_BYTES));
                }
            }
            if (!found.isEmpty()) {
                faults.put(variant.unitName(), found);
            }
        });
        return faults;
    }

    private static Map<String, Variant> units(Set<Variant> variants) {
        Map<String, Variant> units = new TreeMap<>();
        variants.forEach(each -> units.put(each.unitName(), each));
        return units;
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public Device open(DeviceOptions options) {
        return new EmulatedDevice(emulator, options.index() == 1, model, UnaryOperator.identity(), launched::add);
    }

    /** Opens a device whose kernels are changed before they are compiled. */
    public Device open(UnaryOperator<String> edit) {
        return new EmulatedDevice(emulator, false, model, edit, launched::add);
    }

    /** The kernels that its devices have launched. */
    public Set<Kernel> launched() {
        return launched.stream().map(Variant::kernel).collect(Collectors.toSet());
    }

    /** The variants that its devices have launched. */
    public Set<Variant> launchedVariants() {
        return launched;
    }
}
