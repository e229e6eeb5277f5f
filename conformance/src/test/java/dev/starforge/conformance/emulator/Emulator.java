package dev.starforge.conformance.emulator;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;

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

/**
 * The host emulator: kernels compiled by the system's C++ compiler, and the runtime {@code emulator.cpp}, which runs their groups on the
 * CPU and finds their faults. {@code host.prelude} defines the kernel dialect. There is one runtime per process, and it is serial.
 */
@SuppressWarnings("restricted") // calls libraries that it has compiled
final class Emulator {
    private static final Optional<CxxCompiler> CXX = find();
    private static final String PRELUDE = resource("host.prelude");
    private static final long POINTER = ADDRESS.byteSize();

    /** Layout of emulator::Program. */
    private static final long KINDS = 2 * POINTER;

    private static final long PROGRAM_BYTES = 5 * POINTER;

    private final CxxCompiler cxx;
    private final Path runtime;
    private final MethodHandle run;
    private final MethodHandle sharedUsed;

    Emulator(CxxCompiler cxx) {
        this.cxx = cxx;
        runtime = cxx.library("emulator", PRELUDE + "#line 1 \"emulator.cpp\"\n" + resource("emulator.cpp"));
        SymbolLookup symbols = SymbolLookup.libraryLookup(runtime, Arena.global());
        run = Linker.nativeLinker()
                .downcallHandle(
                        symbols.findOrThrow("emulator_run"),
                        FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT));
        sharedUsed = Linker.nativeLinker()
                .downcallHandle(symbols.findOrThrow("emulator_shared_used"), FunctionDescriptor.of(JAVA_LONG));
    }

    /** Returns the emulator. Without a compiler the test is skipped, or fails in CI. */
    static Emulator require() {
        return require(CXX, "true".equals(System.getenv("CI")));
    }

    static Emulator require(Optional<CxxCompiler> cxx, boolean ci) {
        if (cxx.isEmpty() && ci) {
            fail(CxxCompiler.MISSING);
        }
        return new Emulator(cxx.orElseGet(() -> abort(CxxCompiler.MISSING)));
    }

    private static Optional<CxxCompiler> find() {
        Optional<CxxCompiler> found = CxxCompiler.find();
        if (found.isEmpty()) {
            System.err.println("emulator: no kernel is run: " + CxxCompiler.MISSING);
        }
        return found;
    }

    /** A compiled kernel: its address, and a letter for the type of each parameter. */
    record Program(MemorySegment address, String kinds) {}

    /** The source that {@link #compile} compiles. */
    static String text(Variant variant) {
        return variant.program(PRELUDE);
    }

    Program compile(Variant variant, String text) {
        Path library = cxx.library(variant.unitName(), text, runtime);
        MemorySegment program = SymbolLookup.libraryLookup(library, Arena.global())
                .findOrThrow(variant.kernel().symbol() + "_program")
                .reinterpret(PROGRAM_BYTES);
        String kinds = program.get(ADDRESS, KINDS).reinterpret(Long.MAX_VALUE).getString(0);
        return new Program(program, kinds);
    }

    /** Runs all groups, in reverse order if {@code reversed}. Throws an exception with the first fault. Returns the bytes of shared memory used. */
    long run(Program program, MemorySegment arguments, int x, int y, int z, boolean reversed) {
        synchronized (Emulator.class) {
            try {
                MemorySegment fault =
                        (MemorySegment) run.invokeExact(program.address, arguments, x, y, z, reversed ? 1 : 0);
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

    private static String resource(String name) {
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
