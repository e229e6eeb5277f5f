package dev.starforge.conformance.emulator;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The system's C++ compiler.
 *
 * @param command the name of the executable
 * @param version the output of --version
 * @param options for every program
 */
record CxxCompiler(String command, String version, List<String> options) {
    static final String MISSING =
            "no C++ compiler: none of c++, g++ and clang++ starts; install one (apt-get install g++) to run GPU"
                    + " kernels without a GPU";

    /** No implicit contraction: kernels request fused multiply-adds explicitly. */
    private static final List<String> ALWAYS = List.of(
            "-std=c++17",
            "-O1",
            "-fPIC",
            "-shared",
            "-w",
            "-ffp-contract=off",
            "-fno-exceptions",
            "-fno-rtti",
            "-U_FORTIFY_SOURCE");

    static Optional<CxxCompiler> find() {
        for (String command : List.of("c++", "g++", "clang++")) {
            Optional<String> version = NativeCompiler.version(command);
            if (version.isPresent()) {
                return Optional.of(new CxxCompiler(command, version.get(), chosen()));
            }
        }
        return Optional.empty();
    }

    private static List<String> chosen() {
        List<String> options = new ArrayList<>(ALWAYS);
        if (NativeCompiler.hasFma()) {
            options.add("-mfma");
        }
        return options;
    }

    /** Compiles a program to a shared library that links to {@code uses}. */
    Path library(String name, String program, Path... uses) {
        List<String> call = new ArrayList<>(List.of(command));
        call.addAll(options);
        return NativeCompiler.library(name, ".cpp", program, call, List.of(uses), version);
    }
}
