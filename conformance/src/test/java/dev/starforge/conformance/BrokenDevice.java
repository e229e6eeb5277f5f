package dev.starforge.conformance;

import dev.starforge.tensor.Backend;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.DeviceOptions;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Op;
import dev.starforge.tensor.Probe;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Support;
import dev.starforge.tensor.Tensor;
import java.nio.ByteBuffer;
import java.util.List;

/** The reference with one fault: what the suite is there to find. */
class BrokenDevice implements Device, Backend {
    /** Does something wrong, before or after the right thing. */
    interface Fault {
        void run(Device device, Op op, Tensor[] in, Tensor[] out);
    }

    private final Device right = ConformanceMain.reference();
    private final Fault fault;

    BrokenDevice(Fault fault) {
        this.fault = fault;
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        fault.run(right, op, in, out);
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

    @Override
    public Support supports(Op op, Spec... in) {
        return right.supports(op, in);
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return right.workspace(op, in);
    }

    @Override
    public long workspaceBytes() {
        return right.workspaceBytes();
    }

    @Override
    public Memory reserve(long bytes) {
        return right.reserve(bytes);
    }

    @Override
    public void release(Memory memory) {
        right.release(memory);
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        right.write(to, from);
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        right.read(from, to);
    }

    @Override
    public void close() {
        right.close();
    }
}
