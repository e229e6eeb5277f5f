package dev.starforge.serve.pool.start;

import dev.starforge.serve.pool.device.DeviceDiscovery;
import dev.starforge.serve.pool.device.PoolDevice;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.ToLongFunction;

/** Selects the device of a worker: of the requested ones, the one with the most free memory. */
final class DevicePlacement {
    private DevicePlacement() {}

    /** The devices that match a setting. Fails if there are none; never falls back to another kind. */
    static List<PoolDevice> wanted(DeviceDiscovery.FoundDevices found, String setting) {
        String wanted = setting.isEmpty() ? found.preferred().word() : setting;
        List<PoolDevice> devices =
                found.devices().stream().filter(device -> device.is(wanted)).toList();
        if (devices.isEmpty()) {
            throw new PoolException(
                    PoolError.DEVICE_UNAVAILABLE,
                    false,
                    "device " + wanted + ": not found; available: "
                            + found.devices().stream().map(PoolDevice::id).toList());
        }
        return devices;
    }

    static PoolDevice freest(List<PoolDevice> devices, ToLongFunction<PoolDevice> free) {
        return devices.stream().max(Comparator.comparingLong(free)).orElseThrow();
    }

    static PoolException tooSmall(PoolDevice device, long needed, long free) {
        boolean ever = needed <= device.total();
        return new PoolException(
                PoolError.INSUFFICIENT_MEMORY,
                ever,
                "memory: expected " + needed + " bytes free on " + device.id() + ", got " + free
                        + (ever
                                ? "; stop a worker, or try again when one is idle"
                                : "; its total memory is " + device.total()),
                Map.of(
                        "device",
                        device.id(),
                        "needed_bytes",
                        needed,
                        "free_bytes",
                        free,
                        "total_bytes",
                        device.total()));
    }
}
