package dev.starforge.conformance.emulator;

import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Compiles and runs programs in MSL by their text, for the stand-in of Metal. */
public final class MslEmulator {
    private static final Pattern FILE = Pattern.compile("#line 1 \"(\\w+)\\.kernel\"");

    private final Emulator emulator = Emulator.requireMetal();

    private MslEmulator() {}

    /** Without a C++ compiler or clang the test is skipped, or fails in CI. */
    public static MslEmulator require() {
        return new MslEmulator();
    }

    /** A compiled kernel. */
    public record Kernel(Emulator.Program program, String parameters) {}

    /** Compiles a C++ program to a shared library. */
    public Path library(String name, String program) {
        return emulator.hostLibrary(name, program);
    }

    /** Compiles an MSL program. */
    public Path compile(String source) {
        return emulator.metalLibrary(unitName(source), source);
    }

    /** As {@link dev.starforge.kernels.Variant#unitName}, so that both compile a program once. */
    private static String unitName(String source) {
        if (!source.startsWith(Emulator.METAL_PRELUDE)) {
            return "program";
        }
        String program = source.substring(Emulator.METAL_PRELUDE.length());
        String file = FILE.matcher(program)
                .results()
                .reduce((_, last) -> last)
                .map(each -> each.group(1))
                .orElse("program");
        return program.lines()
                .takeWhile(line -> line.startsWith("#define "))
                .map(line -> "-" + line.substring("#define ".length()).replace(' ', '='))
                .collect(Collectors.joining("", file, ""));
    }

    /** The kernel of a compiled program; empty if it has no kernel of that name. */
    public Optional<Kernel> find(Path library, String source, String name) {
        Matcher declared = Pattern.compile("(?s)^KERNEL\\(" + name + ",\\s+(.*?)\\) \\{$", Pattern.MULTILINE)
                .matcher(source);
        return declared.find() ? Optional.of(kernel(library, name, declared.group(1))) : Optional.empty();
    }

    private Kernel kernel(Path library, String name, String parameters) {
        return new Kernel(emulator.metalProgram(library, name, new MetalParameters(parameters, "")), parameters);
    }

    /**
     * Runs all groups and returns the bytes of shared memory that the kernel uses; throws an exception with the first fault.
     *
     * @param accessed receives the bytes that the kernel has read and written by way of each argument
     */
    public long run(Kernel kernel, MemorySegment arguments, int count, int x, int y, int z, MemorySegment accessed) {
        return emulator.run(kernel.program, arguments, count, new int[] {x, y, z}, accessed);
    }
}
