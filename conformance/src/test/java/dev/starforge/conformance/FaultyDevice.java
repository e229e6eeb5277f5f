package dev.starforge.conformance;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.op.Op;
import java.util.List;

/** The reference device with one fault that the suite must find. */
class FaultyDevice extends ForwardingDevice implements Backend {
    /** Runs the operation with a fault. */
    interface Fault {
        void run(Device device, Op op, Tensor[] in, Tensor[] out);
    }

    private final Fault fault;

    FaultyDevice(Fault fault) {
        super(ConformanceMain.reference());
        this.fault = fault;
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        fault.run(device(), op, in, out);
    }

    @Override
    public String name() {
        return "broken";
    }

    @Override
    public int preference() {
        return -1;
    }

    @Override
    public Probe probe() {
        return new Probe(List.of(), "broken on purpose");
    }

    @Override
    public Device open(DeviceOptions options) {
        return this;
    }
}
