package dev.starforge.cli.process;

import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The command line to start this program again: the same Java, options and module path, or class path in tests. */
public final class LauncherCommand {
    private static final String MAIN_CLASS = "dev.starforge.cli.Main";

    private LauncherCommand() {}

    /** The command line without arguments of the program. */
    public static List<String> command() {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        String module = System.getProperty("jdk.module.main");
        if (module != null && module.equals(LauncherCommand.class.getModule().getName())) {
            command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
            command.addAll(List.of("-m", module + "/" + MAIN_CLASS));
        } else {
            command.addAll(List.of("--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"));
            command.addAll(List.of("-cp", System.getProperty("java.class.path"), MAIN_CLASS));
        }
        return command;
    }
}
