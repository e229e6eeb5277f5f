package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** NVIDIA's libraries, made of {@code fake-cuda.cpp} in a folder, and the program as a process that finds them there. */
final class FakeCuda {
    private FakeCuda() {}

    static void compile(Path folder) throws IOException, InterruptedException {
        assumeTrue(System.getProperty("os.name").equals("Linux"));
        Path source = folder.resolve("fake-cuda.cpp");
        try (InputStream text = FakeCuda.class.getResourceAsStream("/dev/starforge/cli/fake-cuda.cpp")) {
            Files.copy(text, source);
        }
        Path library = folder.resolve("libcuda.so.1");
        Process compiler = new ProcessBuilder(
                        "c++", "-shared", "-fPIC", "-w", "-o", library.toString(), source.toString())
                .inheritIO()
                .start();
        assertThat(compiler.waitFor()).isZero();
        for (String name : List.of("libnvrtc.so.13", "libcublasLt.so.13", "libnvidia-ml.so.1")) {
            Files.createSymbolicLink(folder.resolve(name), library);
        }
    }

    /** What it says goes to the file {@code log} in the folder. */
    static ProcessBuilder starforge(Path folder, List<String> arguments) {
        ProcessBuilder builder = new ProcessBuilder(CliProcess.command(arguments))
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("log").toFile());
        builder.environment().put("LD_LIBRARY_PATH", folder.toString());
        builder.environment().put("XDG_CACHE_HOME", folder.toString());
        return builder;
    }
}
