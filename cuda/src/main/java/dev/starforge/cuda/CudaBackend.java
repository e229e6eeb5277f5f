package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Dispatch;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** NVIDIA GPUs through the CUDA driver, with kernels that are compiled by NVRTC when they are first used. */
public final class CudaBackend implements Backend {
    /** The first compute capabilities with mma of bf16, and with programmatic dependent launch. */
    static final int TENSOR_CORES = 8;

    static final int DEPENDENT_LAUNCH = 9;

    private static final int NAME_BYTES = 256;

    @Override
    public String name() {
        return "cuda";
    }

    @Override
    public int preference() {
        return 30;
    }

    @Override
    public Probe probe() {
        if (CudaDriver.LIBRARY instanceof Library.Missing missing) {
            return Probe.missing(missing.reason());
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(NAME_BYTES);
            int status = CudaDriver.cuInit(0);
            if (status == CudaDriver.SUCCESS) {
                status = CudaDriver.cuDeviceGetCount(out);
            }
            if (status != CudaDriver.SUCCESS) {
                return Probe.missing("the NVIDIA driver does not start: " + CudaDriver.describe(status));
            }
            int count = out.get(JAVA_INT, 0);
            if (count == 0) {
                return Probe.missing("the NVIDIA driver is there, but no GPU");
            }
            List<Probe.Found> found = new ArrayList<>();
            for (int index = 0; index < count; index++) {
                found.add(describe(index, out));
            }
            if (Nvrtc.LIBRARY instanceof Library.Missing missing) {
                return Probe.missing(found.getFirst().name() + " is there, but " + missing.reason());
            }
            String products = CublasLt.LIBRARY instanceof Library.Missing missing
                    ? "; dense products by our own kernel, since " + missing.reason()
                    : "";
            return new Probe(found, found.getFirst().name() + products);
        } catch (DeviceException failure) {
            return Probe.missing(String.valueOf(failure.getMessage()));
        }
    }

    private static Probe.Found describe(int index, MemorySegment out) {
        String operation = "describe cuda:" + index;
        CudaDriver.check(CudaDriver.cuDriverGetVersion(out), operation);
        int driver = out.get(JAVA_INT, 0);
        CudaDriver.check(CudaDriver.cuDeviceGet(out, index), operation);
        int device = out.get(JAVA_INT, 0);
        int major = attribute(CudaDriver.ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device, out, operation);
        int minor = attribute(CudaDriver.ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device, out, operation);
        boolean integrated = attribute(CudaDriver.ATTRIBUTE_INTEGRATED, device, out, operation) != 0;
        CudaDriver.check(CudaDriver.cuDeviceTotalMem_v2(out, device), operation);
        long bytes = out.get(JAVA_LONG, 0);
        CudaDriver.check(CudaDriver.cuDeviceGetName(out, NAME_BYTES, device), operation);
        return declare(index, out.getString(0), bytes, integrated, major, minor, driver);
    }

    /** What this build declares of a GPU, here or described. bf16 is fastest where tensor cores take it, from Ampere on. */
    public static Probe.Found declare(
            int index, String name, long bytes, boolean integrated, int major, int minor, int driver) {
        return new Probe.Found(
                index,
                name,
                bytes,
                integrated,
                major >= TENSOR_CORES ? List.of(DType.BF16, DType.F32, DType.F16) : List.of(DType.F32, DType.F16),
                major >= TENSOR_CORES ? "flash" : "plain",
                major >= TENSOR_CORES
                        ? "tiles of queries on tensor cores in 16 bits and heads of 128; otherwise plain"
                        : "tensor cores take bf16 from compute capability 8.0 on",
                "compute capability " + major + "." + minor + ", driver for CUDA " + driver / 1000 + "."
                        + driver % 1000 / 10);
    }

    private static int attribute(int attribute, int device, MemorySegment out, String operation) {
        CudaDriver.check(CudaDriver.cuDeviceGetAttribute(out, attribute, device), operation);
        return out.get(JAVA_INT, 0);
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public Device open(DeviceOptions options) {
        if (options.threads() != 0) {
            throw new DeviceException("cuda: takes no " + options.threads() + " threads; these are for the CPU");
        }
        Probe probe = probe();
        if (options.index() >= probe.found().size()) {
            throw new DeviceException("cuda:" + options.index() + " cannot be opened: "
                    + (probe.found().isEmpty()
                            ? probe.reason()
                            : "there are " + probe.found().size() + " devices"));
        }
        return new CudaDevice(options);
    }
}
