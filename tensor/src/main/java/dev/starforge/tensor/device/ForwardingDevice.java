package dev.starforge.tensor.device;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Optional;

/**
 * Another device with something changed: every method of the SPI goes to it, so that a decorator overrides what it is
 * about and forgets nothing, not even what the SPI gets later. Copies of arrays and {@link #ops} are built on those methods,
 * by {@link Device}, and hence see what was overridden. A decorator of {@link #reserve} overrides {@link #reserveAll}, too.
 */
public abstract class ForwardingDevice implements Device {
    private final Device device;

    protected ForwardingDevice(Device device) {
        this.device = device;
    }

    /** The device that all goes to. */
    protected final Device device() {
        return device;
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
    public Memory reserve(long bytes) {
        return device.reserve(bytes);
    }

    @Override
    public List<Memory> reserveAll(List<Long> bytes) {
        return device.reserveAll(bytes);
    }

    @Override
    public boolean maps(DType type) {
        return device.maps(type);
    }

    @Override
    public Memory map(DType type, FileRegion region) {
        return device.map(type, region);
    }

    @Override
    public void release(Memory memory) {
        device.release(memory);
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
    public void write(Tensor to, long from, ByteBuffer piece) {
        device.write(to, from, piece);
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
    public boolean asynchronous() {
        return device.asynchronous();
    }

    @Override
    public void synchronize() {
        device.synchronize();
    }

    @Override
    public Optional<Limits> limits(long bytes) {
        return device.limits(bytes);
    }

    @Override
    public Optional<Usage> usage() {
        return device.usage();
    }

    @Override
    public void close() {
        device.close();
    }
}
