package dev.starforge.conformance.emulator;

import dev.starforge.kernels.Dispatch;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import java.util.List;
import java.util.function.UnaryOperator;

/** The emulator as a backend, for the conformance suite. Its second device runs everything in the reversed order. */
public final class EmulatedBackend implements Backend {
    private final Emulator emulator = Emulator.require();

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
        Probe.Found found = new Probe.Found(
                0,
                "GPU kernels on the host",
                Runtime.getRuntime().maxMemory(),
                true,
                false,
                "plain",
                "the portable one",
                "fibers");
        return new Probe(List.of(found), "compiled by the system's C++ compiler");
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public Device open(DeviceOptions options) {
        return new EmulatedDevice(emulator, options.index() == 1, UnaryOperator.identity());
    }
}
