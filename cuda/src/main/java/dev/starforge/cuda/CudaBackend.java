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
import java.util.Set;
import java.util.function.Supplier;

/** NVIDIA GPUs through the CUDA driver, with kernels that are compiled by NVRTC when they are first used. */
public final class CudaBackend implements Backend {
    /** The major compute capabilities that introduced mma of bf16, and programmatic dependent launch. */
    static final int AMPERE_MAJOR = 8;

    static final int HOPPER_MAJOR = 9;

    /** Values of {@link DeviceOptions#hidden}: programmatic dependent launch, and all features of Hopper that Ampere lacks. */
    static final String HIDE_DEPENDENT_LAUNCH = "dependent_launch";

    static final String HIDE_SM90 = "sm_90";

    private static final Set<String> FEATURES = Set.of(HIDE_DEPENDENT_LAUNCH, HIDE_SM90);

    /** The oldest driver version that has all functions used here, as a CUDA version. */
    private static final int OLDEST_DRIVER = 12_000;

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
        if (CudaDriver.LIBRARY instanceof NativeLibrary.Missing missing) {
            return Probe.missing(missing.reason());
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(NAME_BYTES);
            int status = CudaDriver.cuInit(0);
            CudaDriver.check(CudaDriver.cuDriverGetVersion(out), "the NVIDIA driver");
            int driver = out.get(JAVA_INT, 0);
            if (status == CudaDriver.SUCCESS) {
                status = CudaDriver.cuDeviceGetCount(out);
            }
            int count = status == CudaDriver.SUCCESS ? out.get(JAVA_INT, 0) : 0;
            List<Probe.DetectedDevice> found = new ArrayList<>();
            for (int index = 0; index < count; index++) {
                found.add(describe(index, driver, out));
            }
            String trouble = status == CudaDriver.SUCCESS || status == CudaDriver.NO_DEVICE
                    ? ""
                    : "the NVIDIA driver does not start: " + CudaDriver.describe(status);
            return new Installation(trouble, driver, found, Nvrtc.LIBRARY, CublasLt.LIBRARY, Nvml.trouble())
                    .judge(Nvrtc::version);
        } catch (DeviceException failure) {
            return Probe.missing(String.valueOf(failure.getMessage()));
        }
    }

    /**
     * The state of a machine whose driver could be loaded. The probe names the first missing requirement.
     *
     * @param trouble why the driver does not start; empty if it starts
     * @param driver the CUDA version of the driver, 12040 for CUDA 12.4
     * @param unmeasured why utilization is unknown; empty if it is known
     */
    record Installation(
            String trouble,
            int driver,
            List<Probe.DetectedDevice> gpus,
            NativeLibrary nvrtc,
            NativeLibrary cublasLt,
            String unmeasured) {
        /** @param compiler the version of NVRTC, if it was found */
        Probe judge(Supplier<String> compiler) {
            if (!trouble.isEmpty()) {
                return Probe.missing(trouble);
            }
            if (gpus.isEmpty()) {
                return Probe.missing("an NVIDIA driver was found, but no GPU");
            }
            String gpu = gpus.getFirst().name() + " is there, but ";
            if (driver < OLDEST_DRIVER) {
                return Probe.missing(gpu + "its driver is for CUDA " + named(driver)
                        + ", which is too old: install one for CUDA " + named(OLDEST_DRIVER) + " (525) or newer");
            }
            if (nvrtc instanceof NativeLibrary.Missing missing) {
                return Probe.missing(gpu + missing.reason());
            }
            String version = compiler.get();
            if (Integer.parseInt(version.substring(0, version.indexOf('.'))) > driver / 1000) {
                return Probe.missing(gpu + "NVRTC " + version + " is newer than its driver, which is for CUDA "
                        + named(driver) + ": install a newer driver, or NVRTC " + driver / 1000);
            }
            String products = cublasLt instanceof NativeLibrary.Missing missing
                    ? "; dense products by our own kernel, since " + missing.reason()
                    : "";
            String usage = unmeasured.isEmpty() ? "" : "; utilization is unknown: " + unmeasured;
            return new Probe(gpus, gpus.getFirst().name() + products + usage);
        }
    }

    private static String named(int version) {
        return version / 1000 + "." + version % 1000 / 10;
    }

    private static Probe.DetectedDevice describe(int index, int driver, MemorySegment out) {
        String operation = "describe cuda:" + index;
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

    /** The capabilities of a GPU. bf16 is the fastest type on devices whose tensor cores support it: Ampere and later. */
    public static Probe.DetectedDevice declare(
            int index, String name, long bytes, boolean integrated, int major, int minor, int driver) {
        return new Probe.DetectedDevice(
                index,
                name,
                bytes,
                integrated,
                major >= AMPERE_MAJOR ? List.of(DType.BF16, DType.F32, DType.F16) : List.of(DType.F32, DType.F16),
                major >= AMPERE_MAJOR ? "flash" : "plain",
                major >= AMPERE_MAJOR
                        ? "FlashAttention in fp16 and bf16: prefill and backward for head sizes that are multiples of"
                                + " 16 up to 128 or of 32 up to 256, decode for head size 128; otherwise plain"
                        : "FlashAttention needs compute capability 8.0 or newer",
                "compute capability " + major + "." + minor + ", driver for CUDA " + named(driver));
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
            throw new DeviceException("cuda: --threads " + options.threads() + " applies to the CPU only");
        }
        if (!FEATURES.containsAll(options.hidden())) {
            throw new DeviceException("cuda: cannot hide " + options.hidden() + "; expected some of " + FEATURES);
        }
        Probe probe = probe();
        if (options.index() >= probe.devices().size()) {
            throw new DeviceException("cuda:" + options.index() + " cannot be opened: "
                    + (probe.devices().isEmpty()
                            ? probe.reason()
                            : "there are " + probe.devices().size() + " devices"));
        }
        return CudaDevice.open(options);
    }
}
