package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;

import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * The compiled kernels of one device. A program is compiled from source at the first launch of one of its kernels, with safe math and
 * precise functions. macOS caches what it has compiled on disk, so there is no cache of our own.
 */
final class KernelLibraries {
    /** The first macOS with math modes; before, there is a switch for fast math. */
    private static final int MATH_MODES_SYSTEM = 15;

    /** Threads of a simdgroup, which the kernels rely on. */
    private static final int SIMD = 32;

    private final MemorySegment device;
    private final MetalChip chip;
    private final MemorySegment options;
    private final String prelude = resource("metal.prelude");
    private final Map<String, MemorySegment> libraries = new HashMap<>();
    private final Map<Variant, MemorySegment> pipelines = new HashMap<>();
    private final Map<String, MemorySegment> memoryPipelines = new HashMap<>();

    /** Call this and {@link #pipeline} within an {@link AutoreleasePool}. */
    KernelLibraries(MemorySegment device, MetalChip chip) {
        this.device = device;
        this.chip = chip;
        options = ObjcRuntime.required(
                MetalDriver.new_(ObjcRuntime.objc_getClass("MTLCompileOptions")), "new MTLCompileOptions");
        MetalDriver.setLanguageVersion(options, MetalDriver.LANGUAGE_3_1);
        if (chip.systemMajor() >= MATH_MODES_SYSTEM) {
            MetalDriver.setMathMode(options, MetalDriver.MATH_MODE_SAFE);
            MetalDriver.setMathFloatingPointFunctions(options, MetalDriver.FUNCTIONS_PRECISE);
        } else {
            MetalDriver.setFastMathEnabled(options, false);
        }
    }

    /** The MTLComputePipelineState of a kernel. */
    MemorySegment pipeline(Variant variant) {
        MemorySegment pipeline = pipelines.get(variant);
        if (pipeline == null) {
            pipeline = pipeline(
                    variant.unitName(),
                    variant.program(prelude),
                    variant.kernel().symbol());
            pipelines.put(variant, pipeline);
        }
        return pipeline;
    }

    /** The MTLComputePipelineState of a kernel of memory.kernel, for elements of a type. */
    MemorySegment memoryPipeline(String type, String symbol) {
        return memoryPipelines.computeIfAbsent(
                type + symbol,
                _ -> pipeline(
                        "memory-" + type,
                        prelude + "#define T " + type + "\n#line 1 \"memory.kernel\"\n" + resource("memory.kernel"),
                        symbol));
    }

    private MemorySegment pipeline(String unit, String source, String symbol) {
        MemorySegment library = libraries.computeIfAbsent(unit, _ -> compile(unit, source));
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment function = MetalDriver.newFunctionWithName(library, Foundation.stringWithUTF8String(symbol));
            ObjcRuntime.required(function, unit + ": kernel " + symbol);
            MemorySegment error = arena.allocate(ADDRESS);
            MemorySegment pipeline = MetalDriver.newComputePipelineStateWithFunction_error(device, function, error);
            ObjcRuntime.objc_release(function);
            if (pipeline.address() == 0) {
                throw new DeviceException("metal: " + unit + ": no pipeline for " + symbol + ": "
                        + Foundation.describe(error.get(ADDRESS, 0)));
            }
            try {
                check(unit + ": " + symbol, pipeline);
            } catch (DeviceException e) {
                ObjcRuntime.objc_release(pipeline);
                throw e;
            }
            return pipeline;
        }
    }

    /** A kernel that needs too many registers runs in smaller groups only; all of ours have {@link Launch#GROUP} threads. */
    private void check(String kernel, MemorySegment pipeline) {
        long threads = MetalDriver.maxTotalThreadsPerThreadgroup(pipeline);
        long width = MetalDriver.threadExecutionWidth(pipeline);
        long shared = MetalDriver.staticThreadgroupMemoryLength(pipeline);
        if (threads < Launch.GROUP || width != SIMD || shared > chip.threadgroupBytes()) {
            throw new DeviceException(
                    "metal: %s: runs in groups of up to %d threads, %d at a time, with %d bytes of threadgroup memory; expected %d, %d and at most %d"
                            .formatted(kernel, threads, width, shared, Launch.GROUP, SIMD, chip.threadgroupBytes()));
        }
    }

    private MemorySegment compile(String unit, String source) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment error = arena.allocate(ADDRESS);
            MemorySegment library = MetalDriver.newLibraryWithSource_options_error(
                    device, Foundation.stringWithUTF8String(source), options, error);
            if (library.address() == 0) {
                throw new DeviceException("metal: " + unit + ": the compiler of macOS " + chip.system()
                        + " rejects it:\n" + Foundation.describe(error.get(ADDRESS, 0)));
            }
            return library;
        }
    }

    /** A source file of this module. */
    private static String resource(String name) {
        try (InputStream stream = KernelLibraries.class.getResourceAsStream(name)) {
            if (stream == null) {
                throw new DeviceException("metal: " + name + " is missing from the module");
            }
            return new String(stream.readAllBytes(), StandardCharsets.US_ASCII);
        } catch (IOException e) {
            throw new DeviceException("metal: " + name + " cannot be read", e);
        }
    }

    /** Releases everything; nothing may be running. */
    void close() {
        pipelines.values().forEach(ObjcRuntime::objc_release);
        memoryPipelines.values().forEach(ObjcRuntime::objc_release);
        libraries.values().forEach(ObjcRuntime::objc_release);
        ObjcRuntime.objc_release(options);
    }
}
