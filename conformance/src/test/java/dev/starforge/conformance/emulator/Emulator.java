package dev.starforge.conformance.emulator;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;

import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.UnaryOperator;

/**
 * The host emulator: kernels compiled by the system's C++ compiler, and the runtime {@code emulator.cpp}, which runs their groups on the
 * CPU and finds their faults. Portable kernels are compiled from the text that Metal compiles, by clang, so one run is a test of that text
 * and of the kernel; kernels with matrix instructions from {@code host.prelude}. There is one runtime per process, and it is serial.
 */
@SuppressWarnings("restricted") // calls libraries that it has compiled
final class Emulator {
    private static final Optional<CxxCompiler> CXX = find();
    private static final Optional<MslCompiler> MSL = MslCompiler.find();
    private static final String HOST_PRELUDE = resource("host.prelude");
    static final String METAL_PRELUDE = resource("/dev/starforge/metal/metal.prelude");
    private static final long POINTER = ADDRESS.byteSize();

    /** Layout of emulator::Program. */
    private static final long KINDS = 2 * POINTER;

    private static final long BODY = 3 * POINTER;
    private static final long PROGRAM_BYTES = 5 * POINTER;

    /** The bytes of shared memory that the preludes promise kernels. */
    private static final int HOST_SHARED_LIMIT = 99 << 10;

    private static final int METAL_SHARED_LIMIT = 32 << 10;

    /** Buffers that a Metal kernel may have, and one more so that its arguments end. */
    static final int MAX_ARGUMENTS = 32;

    private final CxxCompiler cxx;
    private final Optional<MslCompiler> msl;
    private final boolean flush;
    private final Path runtime;
    private final MethodHandle run;
    private final MethodHandle runMetal;
    private final MethodHandle reportAccesses;
    private final MethodHandle sharedUsed;
    private final MemorySegment callMetal;

    /**
     * @param msl compiles portable kernels as Metal does; without it they are compiled as the others, with the host prelude
     * @param flush whether portable kernels flush subnormals to zero
     */
    Emulator(CxxCompiler cxx, Optional<MslCompiler> msl, boolean flush) {
        this.cxx = cxx;
        this.msl = msl;
        this.flush = flush;
        runtime = cxx.library(
                "emulator",
                HOST_PRELUDE + "#line 1 \"emulator.cpp\"\n" + resource("emulator.cpp")
                        + "#line 1 \"emulator_metal.cpp\"\n" + resource("emulator_metal.cpp"));
        SymbolLookup symbols = SymbolLookup.libraryLookup(runtime, Arena.global());
        callMetal = symbols.findOrThrow("emulator_metal_call");
        runMetal = Linker.nativeLinker()
                .downcallHandle(
                        symbols.findOrThrow("emulator_metal_run"),
                        FunctionDescriptor.of(
                                ADDRESS, ADDRESS, ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT));
        reportAccesses = Linker.nativeLinker()
                .downcallHandle(symbols.findOrThrow("emulator_metal_report"), FunctionDescriptor.ofVoid(ADDRESS));
        run = Linker.nativeLinker()
                .downcallHandle(
                        symbols.findOrThrow("emulator_run"),
                        FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT));
        sharedUsed = Linker.nativeLinker()
                .downcallHandle(symbols.findOrThrow("emulator_shared_used"), FunctionDescriptor.of(JAVA_LONG));
    }

    /** Returns the emulator. Without a C++ compiler the test is skipped; without one or without clang it fails in CI. */
    static Emulator require() {
        boolean ci = "true".equals(System.getenv("CI"));
        if (ci) {
            require(MSL, MslCompiler.MISSING, true);
        }
        return new Emulator(require(CXX, CxxCompiler.MISSING, ci), MSL, false);
    }

    /** Returns an emulator that compiles all kernels with the host prelude. */
    static Emulator requireHost() {
        return new Emulator(
                require(CXX, CxxCompiler.MISSING, "true".equals(System.getenv("CI"))), Optional.empty(), false);
    }

    /** Returns an emulator of an Apple GPU, which flushes subnormals. Without clang the test is skipped, or fails in CI. */
    static Emulator requireMetal() {
        boolean ci = "true".equals(System.getenv("CI"));
        return new Emulator(require(CXX, CxxCompiler.MISSING, ci), Optional.of(requireMsl()), true);
    }

    static MslCompiler requireMsl() {
        return require(MSL, MslCompiler.MISSING, "true".equals(System.getenv("CI")));
    }

    static <T> T require(Optional<T> compiler, String missing, boolean ci) {
        if (compiler.isEmpty() && ci) {
            fail(missing);
        }
        return compiler.orElseGet(() -> abort(missing));
    }

    private static Optional<CxxCompiler> find() {
        Optional<CxxCompiler> found = CxxCompiler.find();
        if (found.isEmpty()) {
            System.err.println("emulator: no kernel is run: " + CxxCompiler.MISSING);
        }
        return found;
    }

    /**
     * A compiled kernel.
     *
     * @param address of its emulator::Program
     * @param kinds a letter for the type of each parameter
     * @param metal whether it was compiled as Metal does
     */
    record Program(MemorySegment address, String kinds, boolean metal) {
        /** Bytes of shared memory that the prelude promised. */
        int sharedLimit() {
            return metal ? METAL_SHARED_LIMIT : HOST_SHARED_LIMIT;
        }
    }

    /** Compiles a kernel, whose source {@code edit} may change first: portable ones as Metal does, the others with the host prelude. */
    Program compile(Variant variant, UnaryOperator<String> edit) {
        if (msl.isPresent() && variant.kernel().sibling().isEmpty()) {
            return compileMetal(variant, edit.apply(variant.program(METAL_PRELUDE)));
        }
        Path library = cxx.library(variant.unitName(), edit.apply(variant.program(HOST_PRELUDE)), runtime);
        MemorySegment program = SymbolLookup.libraryLookup(library, Arena.global())
                .findOrThrow(variant.kernel().symbol() + "_program")
                .reinterpret(PROGRAM_BYTES);
        String kinds = program.get(ADDRESS, KINDS).reinterpret(Long.MAX_VALUE).getString(0);
        return new Program(program, kinds, false);
    }

    private Program compileMetal(Variant variant, String text) {
        Path library = msl.orElseThrow().library(variant.unitName(), text, runtime);
        return metalProgram(library, variant.kernel().symbol(), MetalParameters.of(variant, text));
    }

    /** A kernel of a compiled program in MSL. */
    Program metalProgram(Path library, String symbol, MetalParameters parameters) {
        Arena arena = Arena.global();
        MemorySegment program = arena.allocate(PROGRAM_BYTES, POINTER);
        program.set(ADDRESS, 0, arena.allocateFrom(symbol));
        program.set(ADDRESS, POINTER, arena.allocateFrom(parameters.text()));
        program.set(ADDRESS, KINDS, arena.allocateFrom(parameters.kinds()));
        program.set(ADDRESS, BODY, SymbolLookup.libraryLookup(library, arena).findOrThrow(symbol));
        program.set(ADDRESS, BODY + POINTER, callMetal);
        return new Program(program, parameters.kinds(), true);
    }

    /** Runs all groups, in reverse order if {@code reversed}. Throws an exception with the first fault. Returns the bytes of shared memory used. */
    long run(Program program, MemorySegment arguments, int count, Launch grid, boolean reversed) {
        return run(program, arguments, count, new int[] {(int) grid.x(), (int) grid.y(), (int) grid.z()}, reversed);
    }

    private long run(Program program, MemorySegment arguments, int count, int[] grid, boolean reversed) {
        int backwards = reversed ? 1 : 0;
        int zeros = flush ? 1 : 0;
        synchronized (Emulator.class) {
            try {
                MemorySegment fault = program.metal
                        ? (MemorySegment) runMetal.invokeExact(
                                program.address, arguments, count, grid[0], grid[1], grid[2], backwards, zeros)
                        : (MemorySegment)
                                run.invokeExact(program.address, arguments, grid[0], grid[1], grid[2], backwards);
                if (!fault.equals(MemorySegment.NULL)) {
                    throw new DeviceException(fault.reinterpret(Long.MAX_VALUE).getString(0));
                }
                return (long) sharedUsed.invokeExact();
            } catch (RuntimeException | Error thrown) {
                throw thrown;
            } catch (Throwable checked) {
                throw new DeviceException("emulator_run", checked);
            }
        }
    }

    /** Compiles a C++ program that uses no kernel. */
    Path hostLibrary(String name, String program) {
        return cxx.library(name, program);
    }

    /** Compiles a program in MSL. */
    Path metalLibrary(String name, String program) {
        return msl.orElseThrow().library(name, program, runtime);
    }

    /** Runs a program as {@link #run} does, and reports the bytes that it reads and writes by way of each argument. */
    long run(Program program, MemorySegment arguments, int count, int[] grid, MemorySegment accessed) {
        synchronized (Emulator.class) {
            report(accessed);
            try {
                return run(program, arguments, count, grid, false);
            } finally {
                report(MemorySegment.NULL);
            }
        }
    }

    private void report(MemorySegment accessed) {
        try {
            reportAccesses.invokeExact(accessed);
        } catch (Throwable thrown) {
            throw new DeviceException("emulator_metal_report", thrown);
        }
    }

    static String resource(String name) {
        try (InputStream stream = Emulator.class.getResourceAsStream(name)) {
            if (stream == null) {
                throw new DeviceException("emulator: " + name + " is missing");
            }
            return new String(stream.readAllBytes(), StandardCharsets.US_ASCII);
        } catch (IOException failure) {
            throw new DeviceException("emulator: " + name + " cannot be read", failure);
        }
    }
}
