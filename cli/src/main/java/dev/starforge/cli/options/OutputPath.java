package dev.starforge.cli.options;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** Where a command is to write, looked at before any work is done. */
public final class OutputPath {
    private OutputPath() {}

    /** Refuses what is there already, and a folder that is not: nothing is written over, and no folder is made by the way. */
    public static void require(String flag, Path out, CommandLine command) {
        if (Files.exists(out, LinkOption.NOFOLLOW_LINKS)) {
            throw new ParameterException(command, flag + " " + out + " already exists");
        }
        Path parent = out.toAbsolutePath().normalize().getParent();
        if (parent == null || !Files.isDirectory(parent)) {
            throw new ParameterException(
                    command, flag + " " + out + ": folder " + parent + " does not exist; create it first");
        }
    }
}
