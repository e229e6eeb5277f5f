package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.conformance.emulator.MslEmulator;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;

/**
 * A library that stands in for the Objective-C runtime and Metal, so that the backend runs here without a change. It checks what Metal
 * only documents: see {@link #violations}. Kernels run in the emulator. There is one per process; while it is open, the process
 * has a Metal device.
 */
@SuppressWarnings("restricted") // calls a library that it has compiled
public final class StandIn implements AutoCloseable {
    private static final List<String> SOURCES =
            List.of("objc.cpp", "foundation.cpp", "metal.cpp", "commands.cpp", "device.cpp");

    private final MethodHandle violations;
    private final MethodHandle live;
    private final MethodHandle types;
    private final MethodHandle set;
    private final MethodHandle count;

    /** What {@link #count} counts. */
    public enum Event {
        DISPATCH,
        BARRIER,
        COMMAND_BUFFER
    }

    private StandIn(MslEmulator emulator) {
        Path library = emulator.library(
                "standin", SOURCES.stream().map(StandIn::source).collect(Collectors.joining()));
        SymbolLookup symbols = SymbolLookup.libraryLookup(library, Arena.global());
        violations = handle(symbols, "standin_violations", FunctionDescriptor.of(ADDRESS));
        live = handle(symbols, "standin_live", FunctionDescriptor.of(ADDRESS));
        types = handle(symbols, "standin_types", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS));
        set = handle(symbols, "standin_set", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG));
        count = handle(symbols, "standin_count", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG));
        StandInHost.install(symbols, emulator);
        MetalLibraries.replace(new MetalLibraries(library, library.toString(), library.toString(), library.toString()));
    }

    /** Opens it. Without a C++ compiler or clang the test is skipped, or fails in CI. */
    public static StandIn open() {
        return new StandIn(MslEmulator.require());
    }

    private static MethodHandle handle(SymbolLookup symbols, String function, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(symbols.findOrThrow(function), type);
    }

    private static String source(String name) {
        try (InputStream stream = StandIn.class.getResourceAsStream(name)) {
            return "#line 1 \"" + name + "\"\n" + new String(stream.readAllBytes(), StandardCharsets.US_ASCII);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What the backend has done wrong since the last call, one line each, which begins with the name of the check. */
    public String violations() {
        return text(violations);
    }

    /** The objects that were not released, one class per line. */
    public String live() {
        return text(live);
    }

    /** The type encoding of a method; empty if there is none. */
    String types(String receiver, String selector) {
        try (Arena arena = Arena.ofConfined()) {
            return string(
                    (MemorySegment) types.invokeExact(arena.allocateFrom(receiver), arena.allocateFrom(selector)));
        } catch (Throwable thrown) {
            throw new AssertionError(thrown);
        }
    }

    /** Changes the machine, until it is changed back. */
    void set(String name, long value) {
        try (Arena arena = Arena.ofConfined()) {
            set.invokeExact(arena.allocateFrom(name), value);
        } catch (Throwable thrown) {
            throw new AssertionError(thrown);
        }
    }

    /** How often something happened since the process began. */
    public long count(Event event) {
        try {
            return (long) count.invokeExact((long) event.ordinal());
        } catch (Throwable thrown) {
            throw new AssertionError(thrown);
        }
    }

    private static String text(MethodHandle function) {
        try {
            return string((MemorySegment) function.invokeExact());
        } catch (Throwable thrown) {
            throw new AssertionError(thrown);
        }
    }

    private static String string(MemorySegment text) {
        return text.reinterpret(Long.MAX_VALUE).getString(0);
    }

    @Override
    public void close() {
        MetalLibraries.replace(MetalLibraries.MACOS);
    }
}
