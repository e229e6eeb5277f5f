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
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

/** Starts the compilers of the machine. Shared libraries are cached under the hash of their source, the command, and its version. */
final class NativeCompiler {
    static final Path FOLDER = Path.of("target", "emulator");

    private static final Path CPU_INFO = Path.of("/proc/cpuinfo");

    private NativeCompiler() {}

    /** What a compiler answers to --version; empty if it does not start. */
    static Optional<String> version(String command) {
        try {
            Result result = start(List.of(command, "--version"), "");
            return result.status == 0 ? Optional.of(result.output) : Optional.empty();
        } catch (IOException missing) {
            return Optional.empty();
        }
    }

    /** Returns true if -mfma avoids a library call per fused multiply-add on this machine, which doubles the time. */
    static boolean hasFma() {
        try {
            return Files.exists(CPU_INFO) && Files.readString(CPU_INFO).contains(" fma ");
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }

    /**
     * Compiles a program to a shared library.
     *
     * @param extension of the source file
     * @param call the command and its options
     * @param uses libraries that it links to
     * @param version of the compiler
     */
    static Path library(
            String name, String extension, String program, List<String> call, List<Path> uses, String version) {
        String key = hash(String.join("\n", program, call.toString(), version, uses.toString()));
        Path library = FOLDER.toAbsolutePath().resolve(name + "-" + key + ".so");
        if (Files.exists(library)) {
            return library;
        }
        try {
            Path source = library.resolveSibling(name + "-" + key + extension);
            put(source, program);
            Path part = Files.createTempFile(library.getParent(), name, ".so");
            List<String> all = new ArrayList<>(call);
            all.addAll(List.of("-o", part.toString(), source.toString()));
            if (!uses.isEmpty()) {
                all.addAll(List.of("-x", "none"));
            }
            uses.stream().map(Path::toString).forEach(all::add);
            Result result = start(all, "");
            if (result.status != 0) {
                throw new DeviceException(name + ": " + call.getFirst() + " refuses it: "
                        + result.output.lines().limit(20).toList());
            }
            return Files.move(part, library, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new DeviceException(name + ": cannot be compiled in " + FOLDER + ": " + failure, failure);
        }
    }

    /** Writes a file that compilers read; some of them may already run. */
    static void put(Path file, String text) {
        try {
            Path folder = Files.createDirectories(file.toAbsolutePath().getParent());
            Path part = Files.createTempFile(folder, "text", ".part");
            Files.writeString(part, text);
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new DeviceException(file + ": cannot be written: " + failure, failure);
        }
    }

    /** The exit status of a compiler, and what it wrote to standard output and standard error. */
    record Result(int status, String output) {}

    static Result start(List<String> call, String input) throws IOException {
        Process process = new ProcessBuilder(call).redirectErrorStream(true).start();
        try {
            process.getOutputStream().write(input.getBytes(StandardCharsets.UTF_8));
            process.getOutputStream().close();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return new Result(process.waitFor(), output);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new DeviceException(call.getFirst() + ": interrupted", stopped);
        }
    }

    static String hash(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest, 0, 16);
        } catch (NoSuchAlgorithmException impossible) {
            throw new LinkageError("every Java platform has SHA-256", impossible);
        }
    }
}
