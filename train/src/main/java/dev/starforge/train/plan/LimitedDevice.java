package dev.starforge.train.plan;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.MemoryException;
import java.util.List;

/** A device with a memory limit, which includes its scratch memory. */
public final class LimitedDevice extends ForwardingDevice {
    private final long limit;
    private long reserved;
    private long most;

    public LimitedDevice(Device device, long limit) {
        super(device);
        this.limit = limit;
    }

    /** Peak of reserved bytes. */
    public long peakReserved() {
        return most;
    }

    @Override
    public Memory reserve(long bytes) {
        return reserveAll(List.of(bytes)).getFirst();
    }

    @Override
    public List<Memory> reserveAll(List<Long> bytes) {
        long all = bytes.stream().mapToLong(Long::longValue).sum();
        long taken = reserved + workspaceBytes();
        if (all > limit - taken) {
            throw new MemoryException(name() + ": reserve " + all + " bytes: " + taken + " of the limit of " + limit
                    + " bytes are in use; raise device.memory_limit, or use a shorter context or a smaller batch");
        }
        List<Memory> memory = super.reserveAll(bytes);
        reserved += all;
        most = Math.max(most, reserved);
        return memory;
    }

    @Override
    public void release(Memory memory) {
        super.release(memory);
        reserved -= memory.bytes();
    }

    /** Does not map files, since the limit covers all memory for weights. */
    @Override
    public boolean maps(DType type) {
        return false;
    }
}
