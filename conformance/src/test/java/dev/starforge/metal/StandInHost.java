package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.conformance.emulator.MslEmulator;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The functions of metal.cpp's Host: they compile and run kernels in the emulator. An exception that left one would end the process. */
@SuppressWarnings("restricted")
final class StandInHost {
    private static final long FAULT = -1;

    private final MslEmulator emulator;

    /** Handles are numbers from 1 on. */
    private final List<Library> libraries = new ArrayList<>();

    private final List<MslEmulator.Kernel> kernels = new ArrayList<>();

    private record Library(Path file, String source) {}

    private StandInHost(MslEmulator emulator) {
        this.emulator = emulator;
    }

    static void install(SymbolLookup standIn, MslEmulator emulator) {
        StandInHost host = new StandInHost(emulator);
        MemorySegment functions = Arena.global().allocate(MemoryLayout.sequenceLayout(3, ADDRESS));
        functions.setAtIndex(
                ADDRESS, 0, host.upcall("compile", FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG)));
        functions.setAtIndex(
                ADDRESS,
                1,
                host.upcall("find", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG)));
        functions.setAtIndex(
                ADDRESS,
                2,
                host.upcall(
                        "run",
                        FunctionDescriptor.of(
                                JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG)));
        try {
            Linker.nativeLinker()
                    .downcallHandle(standIn.findOrThrow("standin_host"), FunctionDescriptor.ofVoid(ADDRESS))
                    .invokeExact(functions);
        } catch (Throwable thrown) {
            throw new AssertionError(thrown);
        }
    }

    private MemorySegment upcall(String method, FunctionDescriptor type) {
        try {
            MethodType of = type.toMethodType();
            return Linker.nativeLinker()
                    .upcallStub(MethodHandles.lookup().bind(this, method, of), type, Arena.global());
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    long compile(MemorySegment source, MemorySegment log, long logBytes) {
        String text = string(source);
        try {
            libraries.add(new Library(emulator.compile(text), text));
            return libraries.size();
        } catch (RuntimeException rejected) {
            put(log, logBytes, String.valueOf(rejected.getMessage()));
            return 0;
        }
    }

    long find(long library, MemorySegment name, MemorySegment parameters, long bytes) {
        Library in = libraries.get((int) library - 1);
        return emulator.find(in.file, in.source, string(name))
                .map(kernel -> {
                    put(parameters, bytes, kernel.parameters());
                    kernels.add(kernel);
                    return (long) kernels.size();
                })
                .orElse(0L);
    }

    long run(
            long kernel,
            MemorySegment arguments,
            long count,
            MemorySegment groups,
            MemorySegment accessed,
            MemorySegment fault,
            long faultBytes) {
        MemorySegment size = groups.reinterpret(3 * JAVA_LONG.byteSize());
        try {
            return emulator.run(
                    kernels.get((int) kernel - 1),
                    arguments,
                    (int) count,
                    (int) size.getAtIndex(JAVA_LONG, 0),
                    (int) size.getAtIndex(JAVA_LONG, 1),
                    (int) size.getAtIndex(JAVA_LONG, 2),
                    accessed);
        } catch (RuntimeException failed) {
            put(fault, faultBytes, String.valueOf(failed.getMessage()));
            return FAULT;
        }
    }

    private static String string(MemorySegment text) {
        return text.reinterpret(Long.MAX_VALUE).getString(0);
    }

    /** Writes a string, cut to the size of its place. */
    private static void put(MemorySegment to, long bytes, String text) {
        byte[] ascii = text.getBytes(StandardCharsets.US_ASCII);
        int length = (int) Math.min(bytes - 1, ascii.length);
        MemorySegment place = to.reinterpret(bytes);
        MemorySegment.copy(ascii, 0, place, JAVA_BYTE, 0, length);
        place.set(JAVA_BYTE, length, (byte) 0);
    }
}
