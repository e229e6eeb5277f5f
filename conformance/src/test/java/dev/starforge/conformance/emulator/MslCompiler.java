package dev.starforge.conformance.emulator;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * clang as a compiler of the Metal Shading Language: C++ for OpenCL has the address spaces and restrictions of Metal, and the header {@code
 * metal_stdlib} of the emulator the rest. Built-in variables and shared arrays are those of {@code emulator_metal.cpp}.
 *
 * @param command the name of the executable
 * @param version the output of --version
 * @param headers the folder with {@code metal_stdlib}
 */
record MslCompiler(String command, String version, Path headers) {
    static final String MISSING =
            "no clang: none of clang-19, clang-18, clang-17, clang-16 and clang starts; install one (apt-get install"
                    + " clang-19) to check Metal kernels without a Mac";

    /** Metal has no double, no device-side enqueue, and no variables at program scope that are not constant. */
    private static final List<String> LANGUAGE = List.of(
            "-x",
            "cl",
            "-cl-std=clc++2021",
            "-cl-no-stdinc",
            "-cl-single-precision-constant",
            "-Xclang",
            "-cl-ext=-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_program_scope_global_variables,-__opencl_c_device_enqueue",
            "-Wno-unknown-attributes",
            "-Wno-unknown-pragmas",
            "-Wno-pass-failed");

    /** Calls the functions of a thread sanitizer, without its runtime, for loads and stores. Contracts nothing. */
    private static final List<String> WATCHED = List.of(
            "-O1",
            "-fPIC",
            "-shared",
            "-ffp-contract=off",
            "-fsanitize=thread",
            "-mllvm",
            "-tsan-instrument-func-entry-exit=0",
            "-fno-sanitize-link-runtime");

    static Optional<MslCompiler> find() {
        for (String command : List.of("clang-19", "clang-18", "clang-17", "clang-16", "clang")) {
            Optional<String> version = NativeCompiler.version(command);
            if (version.isPresent()) {
                return Optional.of(new MslCompiler(command, version.get(), writeHeaders()));
            }
        }
        return Optional.empty();
    }

    private static Path writeHeaders() {
        Path folder = NativeCompiler.FOLDER.resolve("metal");
        NativeCompiler.put(folder.resolve("metal_stdlib"), Emulator.resource("metal_stdlib"));
        return folder.toAbsolutePath();
    }

    /** Compiles a program to a shared library for the emulator, whose library is {@code runtime}. */
    Path library(String name, String program, Path runtime) {
        return NativeCompiler.library(
                name, ".metal", program, watched(), List.of(runtime), version + Emulator.resource("metal_stdlib"));
    }

    private List<String> watched() {
        List<String> call = call("-target", arch() + "-unknown-linux-gnu");
        call.addAll(WATCHED);
        if (NativeCompiler.hasFma()) {
            call.add("-mfma");
        }
        return call;
    }

    /** The command that compiles standard input for a GPU and prints its LLVM IR, unoptimized. */
    List<String> toIr() {
        List<String> call = call("-target", "spir64");
        call.addAll(List.of("-S", "-emit-llvm", "-O0", "-Xclang", "-disable-llvm-passes", "-o", "-", "-"));
        return call;
    }

    private List<String> call(String... options) {
        List<String> call = new ArrayList<>(List.of(command));
        call.addAll(LANGUAGE);
        call.addAll(List.of("-I", headers.toString()));
        call.addAll(List.of(options));
        return call;
    }

    private static String arch() {
        String arch = System.getProperty("os.arch");
        return arch.equals("amd64") ? "x86_64" : arch;
    }
}
