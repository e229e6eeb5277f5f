package dev.starforge.cli.command;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The program as a process of its own, for what only a process has: environment variables, libraries, an exit code. */
public final class CliProcess {
    private CliProcess() {}

    public static List<String> command(List<String> arguments) {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "--add-modules",
                "jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                System.getProperty("java.class.path"),
                "dev.starforge.cli.Main"));
        command.addAll(arguments);
        return command;
    }
}
