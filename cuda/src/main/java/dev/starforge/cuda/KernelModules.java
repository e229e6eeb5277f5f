package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Variant;
import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/**
 * The compiled kernels of one device. A program is compiled at the first launch of one of its kernels, for the device's architecture
 * unless an older one is requested, with full-precision division, square root and functions, and without TF32.
 *
 * <p>Machine code is cached on disk under the hash of everything it depends on, preceded by its own digest. An atomic rename puts it
 * in place, so that processes can share the folder. Damaged entries are compiled again, and an unwritable folder is ignored.
 */
final class KernelModules {
    private static final int DIGEST_BYTES = 32;
    private static final long ELF_ALIGNMENT = 64;

    private final String architecture;
    private final Path cache;
    private final Map<String, Long> modules = new HashMap<>();
    private final Map<Variant, Long> functions = new HashMap<>();

    private KernelModules(String architecture, Path cache) {
        this.architecture = architecture;
        this.cache = cache;
    }

    /** Kernels for a device of compute capability {@code major.minor}, whose context is current. */
    static KernelModules of(int major, int minor, Path cache) {
        return new KernelModules("sm_" + major + minor + (hasWarpgroups(major, minor) ? "a" : ""), cache);
    }

    /** Only Hopper has wgmma: its kernels are compiled for sm_90a, which runs on no other device. */
    static boolean hasWarpgroups(int major, int minor) {
        return major == 9 && minor == 0;
    }

    /** Kernels for Ampere, which run on every later device: NVRTC generates PTX, and the driver compiles it to machine code. */
    static KernelModules portable(Path cache) {
        return new KernelModules("compute_80", cache);
    }

    /** The driver's handle of a kernel. */
    long function(Variant variant) {
        Long function = functions.get(variant);
        if (function == null) {
            Long module = modules.get(variant.unitName());
            if (module == null) {
                module = load(variant);
                modules.put(variant.unitName(), module);
            }
            function = find(module, variant);
            functions.put(variant, function);
        }
        return function;
    }

    private static long find(long module, Variant variant) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_LONG);
            MemorySegment symbol = arena.allocateFrom(variant.kernel().symbol());
            CudaDriver.check(CudaDriver.cuModuleGetFunction(out, module, symbol), variant.toString());
            long function = out.get(JAVA_LONG, 0);
            int shared = variant.kernel().dynamicSharedBytes();
            if (shared > 0) {
                CudaDriver.check(
                        CudaDriver.cuFuncSetAttribute(function, CudaDriver.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared),
                        variant.toString());
            }
            return function;
        }
    }

    private long load(Variant variant) {
        List<String> options = List.of("--gpu-architecture=" + architecture, "--std=c++17", "--fmad=true");
        String unit = variant.unitName();
        String source = variant.program(prelude());
        String compiler = Nvrtc.version();
        String key = HexFormat.of()
                .formatHex(sha256(
                        String.join("\n", source, options.toString(), compiler).getBytes(StandardCharsets.UTF_8)));
        Path entry = cache.resolve(unit + "-" + architecture + "-" + key + ".cubin");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_LONG);
            byte[] cached = cached(entry);
            if (cached.length > 0 && loadModule(arena, out, cached) == CudaDriver.SUCCESS) {
                return out.get(JAVA_LONG, 0);
            }
            byte[] cubin = Nvrtc.compile(unit, source, options);
            keep(entry, cubin);
            CudaDriver.check(
                    loadModule(arena, out, cubin), unit + ", compiled by NVRTC " + compiler + " for " + architecture);
            return out.get(JAVA_LONG, 0);
        }
    }

    private static int loadModule(Arena arena, MemorySegment out, byte[] cubin) {
        MemorySegment image = arena.allocate(cubin.length, ELF_ALIGNMENT);
        image.copyFrom(MemorySegment.ofArray(cubin));
        return CudaDriver.cuModuleLoadData(out, image);
    }

    /** The prelude that defines the kernel dialect for CUDA. */
    static String prelude() {
        try (InputStream stream = KernelModules.class.getResourceAsStream("cuda.prelude")) {
            if (stream == null) {
                throw new DeviceException("cuda: cuda.prelude is missing from the module");
            }
            return new String(stream.readAllBytes(), StandardCharsets.US_ASCII);
        } catch (IOException e) {
            throw new DeviceException("cuda: cuda.prelude cannot be read", e);
        }
    }

    /** The machine code of a cache entry; empty if the entry is missing or damaged. */
    private static byte[] cached(Path entry) {
        try {
            byte[] bytes = Files.readAllBytes(entry);
            byte[] cubin = Arrays.copyOfRange(bytes, Math.min(bytes.length, DIGEST_BYTES), bytes.length);
            boolean whole =
                    bytes.length > DIGEST_BYTES && Arrays.equals(sha256(cubin), Arrays.copyOf(bytes, DIGEST_BYTES));
            return whole ? cubin : new byte[0];
        } catch (IOException e) {
            return new byte[0];
        }
    }

    private static void keep(Path entry, byte[] cubin) {
        try {
            Files.createDirectories(entry.getParent());
            Path part = Files.createTempFile(entry.getParent(), "kernel", ".part");
            byte[] bytes = Arrays.copyOf(sha256(cubin), DIGEST_BYTES + cubin.length);
            System.arraycopy(cubin, 0, bytes, DIGEST_BYTES, cubin.length);
            Files.write(part, bytes);
            Files.move(part, entry, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException unwritable) {
            return; // compiled again next time
        }
    }

    private static byte[] sha256(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new LinkageError("every Java platform has SHA-256", e);
        }
    }

    /** Unloads all modules. Returns the first failed status. */
    int unload() {
        int failure = CudaDriver.SUCCESS;
        for (long module : modules.values()) {
            failure = CudaDevice.first(failure, CudaDriver.cuModuleUnload(module));
        }
        modules.clear();
        functions.clear();
        return failure;
    }
}
