package dev.starforge.cli.options;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** Where a verb is to write, looked at before any work is done. */
public final class OutputPath {
    private OutputPath() {}

    /** Refuses what is there already, and a folder that is not: nothing is written over, and no folder is made by the way. */
    public static void require(String flag, Path out, CommandLine verb) {
        if (Files.exists(out, LinkOption.NOFOLLOW_LINKS)) {
            throw new ParameterException(verb, flag + " " + out + ": is there already");
        }
        Path parent = out.toAbsolutePath().normalize().getParent();
        if (parent == null || !Files.isDirectory(parent)) {
            throw new ParameterException(verb, flag + " " + out + ": there is no folder " + parent + "; make it first");
        }
    }
}
