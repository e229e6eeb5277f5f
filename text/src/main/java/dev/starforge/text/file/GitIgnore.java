package dev.starforge.text.file;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Keeps output folders inside a git work tree out of the user's commits, with a {@code .gitignore} in the folder itself. */
public final class GitIgnore {
    public static final String FILE = ".gitignore";

    private static final String EVERYTHING = "*\n";

    private GitIgnore() {}

    /**
     * Writes a {@code .gitignore} for everything in a folder that the program has created. Does nothing outside of a work
     * tree, and if the folder or one above it is ignored in this way already.
     *
     * @return true if the file was written
     */
    public static boolean write(Path folder) throws IOException {
        for (Path each = folder.toAbsolutePath().normalize(); each != null; each = each.getParent()) {
            Path file = each.resolve(FILE);
            if (Files.isRegularFile(file) && Files.readString(file).equals(EVERYTHING)) {
                return false;
            }
            if (Files.exists(each.resolve(".git"))) {
                Path own = folder.resolve(FILE);
                boolean absent = !each.equals(folder.toAbsolutePath().normalize()) && !Files.exists(own);
                if (absent) {
                    Files.writeString(own, EVERYTHING);
                }
                return absent;
            }
        }
        return false;
    }

    /** The message for users when the file was written. */
    public static String notice(Path folder) {
        return folder.resolve(FILE) + ": tells git to ignore this folder";
    }
}
