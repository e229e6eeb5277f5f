package dev.starforge.cli.options;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** Checks output paths before a command starts. */
public final class OutputPath {
    private OutputPath() {}

    /** Rejects a path that exists, or whose parent folder does not. */
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
