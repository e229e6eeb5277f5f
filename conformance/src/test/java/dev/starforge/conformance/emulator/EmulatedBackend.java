package dev.starforge.conformance.emulator;

import dev.starforge.kernels.Dispatch;
import dev.starforge.kernels.Kernel;
import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launcher;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;

/** The emulator as a backend, for the conformance suite. Its second device runs everything in the reversed order. */
public final class EmulatedBackend implements Backend {
    private final Emulator emulator = Emulator.require();
    private final Set<Kernel> launched = ConcurrentHashMap.newKeySet();
    private final boolean warpgroups;

    /** Of chips without warpgroups. */
    public EmulatedBackend() {
        this(false);
    }

    public EmulatedBackend(boolean warpgroups) {
        this.warpgroups = warpgroups;
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

    /** Adds the programs that an operation will need. */
    public void variants(Op op, Spec[] in, Set<Variant> needed) {
        try (Device device = open(new DeviceOptions(0, 0, Path.of("")));
                Scope scope = new Scope(device)) {
            Dispatch dispatch = new Dispatch(new Recorder(needed, scope, warpgroups));
            Tensor[] given = allocate(scope, in);
            dispatch.run(op, given, allocate(scope, op.outputs(in)));
            dispatch.flush();
        }
    }

    private static Tensor[] allocate(Scope scope, Spec[] specs) {
        return Arrays.stream(specs).map(scope::allocate).toArray(Tensor[]::new);
    }

    /** Runs nothing. */
    private record Recorder(Set<Variant> launched, Scope scratch, boolean supportsWarpgroups) implements Launcher {
        @Override
        public void launch(Launch launch) {
            launched.add(launch.variant());
        }

        @Override
        public void zero(Tensor tensor) {}

        @Override
        public void copy(Tensor from, Tensor to) {}

        @Override
        public Tensor constant(int... values) {
            return scratch.allocate(Spec.i32(values.length));
        }

        @Override
        public boolean supportsClusters() {
            return false;
        }

        @Override
        public int multiprocessors() {
            return EmulatedDevice.multiprocessors(supportsWarpgroups);
        }

        @Override
        public boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
            return false;
        }
    }

    /** Compiles programs side by side; others are compiled when they are first launched. */
    public void compile(Set<Variant> variants) {
        Map<String, Variant> units = new TreeMap<>();
        variants.forEach(each -> units.put(each.unitName(), each));
        units.values().parallelStream().forEach(each -> emulator.compile(each, Emulator.text(each)));
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public Device open(DeviceOptions options) {
        return new EmulatedDevice(emulator, options.index() == 1, warpgroups, UnaryOperator.identity(), launched::add);
    }

    /** The kernels that its devices have launched. */
    public Set<Kernel> launched() {
        return launched;
    }
}
