package dev.starforge.conformance.emulator;

import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/**
 * The system's C++ compiler. Shared libraries are cached under the hash of their source and options.
 *
 * @param command the name of the executable
 * @param version the output of --version
 * @param options for every program
 * @param folder of the shared libraries
 */
record CxxCompiler(String command, String version, List<String> options, Path folder) {
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

    /** On x86, -mfma avoids a library call per fused multiply-add, which doubles the time. */
    private static final Path CPU_INFO = Path.of("/proc/cpuinfo");

    static Optional<CxxCompiler> find() {
        for (String command : List.of("c++", "g++", "clang++")) {
            try {
                Result result = start(List.of(command, "--version"));
                if (result.status == 0) {
                    return Optional.of(
                            new CxxCompiler(command, result.output, chosen(), Path.of("target", "emulator")));
                }
            } catch (IOException e) {
                continue; // try the next one
            }
        }
        return Optional.empty();
    }

    private static List<String> chosen() {
        List<String> options = new ArrayList<>(ALWAYS);
        try {
            if (Files.exists(CPU_INFO) && Files.readString(CPU_INFO).contains(" fma ")) {
                options.add("-mfma");
            }
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
        return options;
    }

    /** Compiles a program to a shared library that links to {@code uses}. */
    Path library(String name, String program, Path... uses) {
        String key = hash(String.join("\n", program, options.toString(), version, Arrays.toString(uses)));
        Path library = folder.toAbsolutePath().resolve(name + "-" + key + ".so");
        if (Files.exists(library)) {
            return library;
        }
        try {
            Files.createDirectories(library.getParent());
            Path part = Files.createTempFile(library.getParent(), name, ".so");
            Path source = library.resolveSibling(name + "-" + key + ".cpp");
            Files.writeString(source, program);
            List<String> call = new ArrayList<>(List.of(command));
            call.addAll(options);
            call.addAll(List.of("-o", part.toString(), source.toString()));
            Arrays.stream(uses).map(Path::toString).forEach(call::add);
            Result result = start(call);
            if (result.status != 0) {
                throw new DeviceException(name + ": " + command + " refuses it: "
                        + result.output.lines().limit(20).toList());
            }
            return Files.move(part, library, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new DeviceException(name + ": cannot be compiled in " + folder + ": " + failure, failure);
        }
    }

    private record Result(int status, String output) {}

    private static Result start(List<String> call) throws IOException {
        Process process = new ProcessBuilder(call).redirectErrorStream(true).start();
        try {
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return new Result(process.waitFor(), output);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new DeviceException(call.getFirst() + ": interrupted", stopped);
        }
    }

    private static String hash(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest, 0, 16);
        } catch (NoSuchAlgorithmException impossible) {
            throw new LinkageError("every Java platform has SHA-256", impossible);
        }
    }
}
