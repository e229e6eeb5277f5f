package dev.starforge.bench.process;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Runs other programs: the launcher of Starforge, git, Maven. {@code ./dev} starts Java in the folder of this module. */
public final class Programs {
    public static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
    public static final String STARFORGE = ROOT.resolve("starforge").toString();

    private Programs() {}

    /** Runs a command in the project's root folder and returns its output, standard error included. */
    public static String run(String... command) throws IOException, InterruptedException {
        return run(Map.of(), List.of(command));
    }

    /** Runs a command with additional environment variables. Throws an exception with the output if the exit code is not 0. */
    public static String run(Map<String, String> environment, List<String> command)
            throws IOException, InterruptedException {
        ProcessBuilder builder =
                new ProcessBuilder(command).directory(ROOT.toFile()).redirectErrorStream(true);
        builder.environment().putAll(environment);
        Process process = builder.start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + ": exit code " + process.exitValue() + "\n" + output);
        }
        return output;
    }

    public static String starforge(String... args) throws IOException, InterruptedException {
        return starforge(Arrays.asList(args));
    }

    public static String starforge(List<String> args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(STARFORGE));
        command.addAll(args);
        return run(Map.of(), command);
    }

    /** The lines of a program's output that contain a match of a regular expression. */
    public static List<String> linesWith(String regex, String output) {
        return output.lines()
                .filter(line -> line.matches(".*(?:" + regex + ").*"))
                .toList();
    }

    /** Deletes a folder with its contents if it exists. */
    public static void delete(Path folder) throws IOException {
        if (Files.notExists(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }
}
