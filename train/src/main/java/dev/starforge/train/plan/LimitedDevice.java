package dev.starforge.train.plan;

import dev.starforge.tensor.Device;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.MemoryException;
import dev.starforge.tensor.Op;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Support;
import dev.starforge.tensor.Tensor;
import java.nio.ByteBuffer;

/** A device that gives no more memory than it was allowed to, however much it has. */
public final class LimitedDevice implements Device {
    private final Device device;
    private final long limit;
    private long reserved;
    private long most;

    public LimitedDevice(Device device, long limit) {
        this.device = device;
        this.limit = limit;
    }

    /** The most bytes that were reserved at one time. */
    public long mostReserved() {
        return most;
    }

    @Override
    public Memory reserve(long bytes) {
        if (bytes > limit - reserved) {
            throw new MemoryException(name() + ": reserve " + bytes + " bytes: " + reserved + " of the limit of "
                    + limit + " bytes are taken");
        }
        Memory memory = device.reserve(bytes);
        reserved += bytes;
        most = Math.max(most, reserved);
        return memory;
    }

    @Override
    public void release(Memory memory) {
        device.release(memory);
        reserved -= memory.bytes();
    }

    @Override
    public String name() {
        return device.name();
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return device.supports(op, in);
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return device.workspace(op, in);
    }

    @Override
    public long workspaceBytes() {
        return device.workspaceBytes();
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        device.run(op, in, out);
    }

    @Override
    public boolean holdsValues() {
        return device.holdsValues();
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        device.write(to, from);
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        device.read(from, to);
    }

    @Override
    public void replay(Object key, Runnable step) {
        device.replay(key, step);
    }

    @Override
    public void forget(Object key) {
        device.forget(key);
    }

    @Override
    public void synchronize() {
        device.synchronize();
    }

    @Override
    public void close() {
        device.close();
    }
}
