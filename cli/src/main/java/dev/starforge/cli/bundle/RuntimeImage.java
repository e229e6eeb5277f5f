package dev.starforge.cli.bundle;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.module.Configuration;
import java.lang.module.ModuleFinder;
import java.lang.module.ResolvedModule;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A Java runtime with the modules that the program needs. An installation from an image already has one; otherwise jlink links
 * it from the running JDK or from another one, whose {@code jmods} can be for another platform.
 */
public final class RuntimeImage {
    /** Modules that no other module requires: flight recordings and memory size. */
    private static final List<String> WANTED = List.of("jdk.jfr", "jdk.management");

    private RuntimeImage() {}

    /** Thrown if no runtime can be linked; the message has the remedy. */
    public static final class MissingException extends RuntimeException {
        private static final long serialVersionUID = 1;

        MissingException(String message) {
            super(message);
        }
    }

    /** The runtime of the installation, if it is not a full JDK. */
    public static Optional<Path> own(Path home) {
        Path runtime = home.resolve("runtime");
        return Files.isSymbolicLink(runtime) || !Files.isRegularFile(runtime.resolve("lib/modules"))
                ? Optional.empty()
                : Optional.of(runtime);
    }

    /**
     * Links a runtime into a new folder. Newer JDKs without {@code jmods} can only be linked by their own jlink, and only for the
     * system they run on.
     *
     * @param jdk the JDK to take modules from; default: the running JDK
     * @param javaHome a JDK with jlink for this system, if the running one has none
     */
    public static Path link(Path lib, Optional<Path> jdk, Optional<Path> javaHome, Path out) throws IOException {
        Optional<Path> jmods = jdk.map(folder -> folder.resolve("jmods")).filter(Files::isDirectory);
        Optional<Path> theirs = jdk.flatMap(RuntimeImage::jlink);
        if (jdk.isPresent() && jmods.isEmpty() && theirs.isEmpty()) {
            throw new MissingException(
                    "--jdk " + jdk.get() + ": neither a jmods folder nor a bin/jlink for this system; use a JDK 25"
                            + " with one of them; some distributions package jmods separately"
                            + " (openjdk-25-jmods)");
        }
        List<String> arguments = new ArrayList<>();
        jmods.ifPresent(folder -> arguments.addAll(List.of("--module-path", folder.toString())));
        arguments.addAll(List.of(
                "--add-modules", modules(lib), "--strip-java-debug-attributes", "--no-header-files", "--no-man-pages"));
        arguments.addAll(List.of("--output", out.toString()));
        Optional<ToolProvider> own =
                jdk.isPresent() && jmods.isEmpty() ? Optional.empty() : ToolProvider.findFirst("jlink");
        String said = own.isPresent()
                ? run(own.get(), arguments)
                : run(
                        theirs.or(() -> javaHome.flatMap(RuntimeImage::jlink))
                                .orElseThrow(
                                        () -> new MissingException("jlink not found in this runtime. Pass a JDK 25 for"
                                                + " this system with --jdk DIR, set JAVA_HOME to one, or omit the runtime"
                                                + " with --no-runtime")),
                        arguments);
        if (!said.isEmpty()) {
            throw new MissingException("jlink failed: " + said.strip());
        }
        return out;
    }

    private static Optional<Path> jlink(Path jdk) {
        return Optional.of(jdk.resolve("bin").resolve("jlink")).filter(Files::isExecutable);
    }

    private static String modules(Path lib) {
        ModuleFinder jars = ModuleFinder.of(lib);
        Set<String> ours =
                jars.findAll().stream().map(each -> each.descriptor().name()).collect(Collectors.toSet());
        Stream<String> required = Configuration.empty().resolve(jars, ModuleFinder.ofSystem(), ours).modules().stream()
                .map(ResolvedModule::name)
                .filter(name -> !ours.contains(name));
        return Stream.concat(WANTED.stream(), required).distinct().sorted().collect(Collectors.joining(","));
    }

    /** Runs jlink; returns its output if it fails, otherwise an empty string. */
    private static String run(ToolProvider jlink, List<String> arguments) {
        StringWriter said = new StringWriter();
        PrintWriter writer = new PrintWriter(said);
        return jlink.run(writer, writer, arguments.toArray(String[]::new)) == 0 ? "" : said + " ";
    }

    private static String run(Path jlink, List<String> arguments) throws IOException {
        Process process = new ProcessBuilder(Stream.concat(Stream.of(jlink.toString()), arguments.stream())
                        .toList())
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        try {
            return process.waitFor() == 0 ? "" : said + " ";
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            process.destroy();
            return "interrupted";
        }
    }
}
