package dev.starforge.metal;

import dev.starforge.kernels.Dispatch;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Apple GPUs through Metal, with kernels that the system's compiler compiles when they are first used (pre-release: no part of it has
 * run on a Mac, so it is used only if named).
 */
public final class MetalBackend implements Backend {
    @Override
    public String name() {
        return "metal";
    }

    @Override
    public int preference() {
        return -1;
    }

    @Override
    public Probe probe() {
        MetalLibraries libraries = MetalLibraries.current();
        if (!libraries.areInstalled()) {
            return Probe.missing("not macOS: " + libraries.installed() + " does not exist");
        }
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            MemorySegment all = MetalDriver.MTLCopyAllDevices();
            try {
                return judge(chips(all));
            } finally {
                ObjcRuntime.objc_release(all);
            }
        } catch (RuntimeException | LinkageError failure) {
            return Probe.missing("Metal is installed, but fails: " + failure);
        }
    }

    private static List<MetalChip> chips(MemorySegment all) {
        List<MetalChip> chips = new ArrayList<>();
        for (long i = 0; i < Foundation.count(all); i++) {
            chips.add(MetalChip.of(Foundation.objectAtIndex(all, i)));
        }
        return chips;
    }

    /** The first requirement that is missing, or the devices. */
    static Probe judge(List<MetalChip> chips) {
        if (chips.isEmpty()) {
            return Probe.missing("Metal is installed, but there is no GPU");
        }
        Optional<String> trouble = chips.getFirst().trouble();
        if (trouble.isPresent()) {
            return Probe.missing(trouble.get());
        }
        List<Probe.DetectedDevice> devices = new ArrayList<>();
        for (MetalChip chip : chips) {
            if (chip.trouble().isEmpty()) {
                devices.add(chip.describe(devices.size()));
            }
        }
        return new Probe(devices, devices.getFirst().name() + " (pre-release: not run on hardware)");
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public Device open(DeviceOptions options) {
        if (options.threads() != 0) {
            throw new DeviceException("metal: --threads " + options.threads() + " applies to the CPU only");
        }
        if (!options.hidden().isEmpty()) {
            throw new DeviceException("metal: cannot hide " + options.hidden() + "; it has no optional features");
        }
        Probe probe = probe();
        if (options.index() >= probe.devices().size()) {
            throw new DeviceException("metal:" + options.index() + " cannot be opened: "
                    + (probe.devices().isEmpty()
                            ? probe.reason()
                            : "there are " + probe.devices().size() + " devices"));
        }
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            return open(options, MetalDriver.MTLCopyAllDevices());
        }
    }

    private static Device open(DeviceOptions options, MemorySegment all) {
        try {
            int usable = 0;
            for (long i = 0; i < Foundation.count(all); i++) {
                MemorySegment device = Foundation.objectAtIndex(all, i);
                MetalChip chip = MetalChip.of(device);
                if (chip.trouble().isEmpty() && usable++ == options.index()) {
                    return new MetalDevice(ObjcRuntime.objc_retain(device), chip, options);
                }
            }
            throw new DeviceException("metal:" + options.index() + " cannot be opened: it is gone");
        } finally {
            ObjcRuntime.objc_release(all);
        }
    }
}
