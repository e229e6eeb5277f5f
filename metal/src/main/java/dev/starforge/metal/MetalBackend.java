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
import java.nio.file.Files;
import java.nio.file.Path;

/** Apple GPUs (pre-release): reports the GPU, but has no kernels yet, so it offers no device and is never selected. */
public final class MetalBackend implements Backend {
    private static final Path FRAMEWORK = Path.of("/System/Library/Frameworks/Metal.framework");

    @Override
    public String name() {
        return "metal";
    }

    @Override
    public int preference() {
        return 20;
    }

    @Override
    public Probe probe() {
        if (!Files.isDirectory(FRAMEWORK)) {
            return Probe.missing("not macOS: " + FRAMEWORK + " does not exist");
        }
        try {
            return Probe.missing(gpu() + ", but Starforge has no Metal kernels yet (pre-release)");
        } catch (RuntimeException | LinkageError failure) {
            return Probe.missing("Metal is installed, but fails: " + failure);
        }
    }

    /** A sentence that describes the GPU. */
    private static String gpu() {
        MemorySegment pool = Metal.objc_autoreleasePoolPush();
        try {
            MemorySegment device = Metal.MTLCreateSystemDefaultDevice();
            if (device.equals(MemorySegment.NULL)) {
                return "Metal is installed without a GPU";
            }
            String name = Metal.text(Metal.objc_msgSend(device, "name"));
            long bytes = Metal.objc_msgSend_long(device, "recommendedMaxWorkingSetSize");
            boolean unified = Metal.objc_msgSend_bool(device, "hasUnifiedMemory");
            Metal.objc_release(device);
            return name + " (" + (bytes >> 20) + " MiB, " + (unified ? "unified" : "separate") + " memory) was found";
        } finally {
            Metal.objc_autoreleasePoolPop(pool);
        }
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public Device open(DeviceOptions options) {
        throw new DeviceException("metal:" + options.index() + " cannot be opened: " + probe().reason());
    }
}
