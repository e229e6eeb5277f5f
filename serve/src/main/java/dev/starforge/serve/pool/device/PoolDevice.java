package dev.starforge.serve.pool.device;

/**
 * A device that workers can use.
 *
 * @param index index among the devices of its kind
 * @param total bytes of memory
 * @param free bytes that the system reports as free
 */
public record PoolDevice(DeviceKind kind, int index, String name, long total, long free) {
    public PoolDevice {
        if (index < 0 || total < 0 || free < 0) {
            throw new IllegalArgumentException("device " + name + ": expected an index and sizes from 0, got " + index
                    + ", " + total + ", " + free);
        }
    }

    /** {@code cpu}, {@code cuda:0}. */
    public String id() {
        return kind == DeviceKind.CPU ? kind.word() : kind.word() + ":" + index;
    }

    /** Returns true if a setting matches: its id, or its kind. */
    public boolean is(String setting) {
        return setting.equals(id()) || setting.equals(kind.word());
    }
}
