package dev.starforge.tensor.reference;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import java.util.List;

/** The oracle as a backend: always there, never chosen by itself. */
public final class ReferenceBackend implements Backend {
    @Override
    public String name() {
        return "reference";
    }

    @Override
    public int preference() {
        return -1;
    }

    @Override
    public Probe probe() {
        Probe.DetectedDevice found = new Probe.DetectedDevice(
                0,
                "scalar loops in double",
                Runtime.getRuntime().maxMemory(),
                true,
                List.of(DType.F32, DType.BF16, DType.F16),
                "plain",
                "the definition the others are tested against",
                "one thread");
        return new Probe(List.of(found), "plain loops, for checking the others");
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Support.NATIVE;
    }

    @Override
    public Device open(DeviceOptions options) {
        if (options.index() != 0 || options.threads() > 1) {
            throw new DeviceException("device reference: there is one, with one thread; asked for index "
                    + options.index() + " and " + options.threads() + " threads");
        }
        if (!options.hidden().isEmpty()) {
            throw new DeviceException("device reference: cannot hide " + options.hidden() + "; expected nothing");
        }
        return new ReferenceDevice();
    }
}
