package dev.starforge.cli;

import dev.starforge.cli.command.RootCommand;
import dev.starforge.cli.process.ExitCode;

/** Runs {@code starforge COMMAND ...} and exits with its code. */
final class Main {
    private Main() {}

    public static void main(String[] args) {
        try {
            System.exit(RootCommand.commandLine().execute(args));
        } catch (OutOfMemoryError full) {
            System.err.printf(
                    "starforge: out of Java heap memory (%d MB); increase it with STARFORGE_JAVA_OPTS=-Xmx4g%n",
                    Runtime.getRuntime().maxMemory() >> 20);
            System.exit(ExitCode.FAILED);
        }
    }
}
