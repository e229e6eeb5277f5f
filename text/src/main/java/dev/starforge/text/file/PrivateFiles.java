package dev.starforge.text.file;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/** Files (mode 0600) and folders (0700) of their owner alone. Systems without POSIX permissions create them as usual. */
public final class PrivateFiles {
    private static final Set<PosixFilePermission> FILE = PosixFilePermissions.fromString("rw-------");
    private static final Set<PosixFilePermission> FOLDER = PosixFilePermissions.fromString("rwx------");
    private static final Set<PosixFilePermission> OTHERS = PosixFilePermissions.fromString("---rwxrwx");

    private PrivateFiles() {}

    /** Creates a folder, or takes the permissions of others from an existing one. Fails if it belongs to another user. */
    public static Path folder(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            Path parent = folder.toAbsolutePath().getParent();
            if (parent != null) {
                Files.createDirectories(parent);
            }
            return Files.createDirectory(folder, attributes(folder, FOLDER));
        }
        restrict(folder);
        return folder;
    }

    /** Creates an empty file, or takes the permissions of others from an existing one. */
    public static Path file(Path file) throws IOException {
        try {
            return Files.createFile(file, attributes(file, FILE));
        } catch (FileAlreadyExistsException e) {
            restrict(file);
            return file;
        }
    }

    /** Takes the permissions of others from a file or folder. */
    public static void restrict(Path path) throws IOException {
        if (isPosix(path) && Files.getPosixFilePermissions(path).stream().anyMatch(OTHERS::contains)) {
            Files.setPosixFilePermissions(path, Files.isDirectory(path) ? FOLDER : FILE);
        }
    }

    /** Returns true if other users have a permission, {@code 'r'}, {@code 'w'} or {@code 'x'}. */
    public static boolean othersMay(char permission, Path path) throws IOException {
        return isPosix(path)
                && PosixFilePermissions.toString(Files.getPosixFilePermissions(path))
                                .substring(6)
                                .indexOf(permission)
                        >= 0;
    }

    private static FileAttribute<?>[] attributes(Path path, Set<PosixFilePermission> permissions) {
        return isPosix(path)
                ? new FileAttribute<?>[] {PosixFilePermissions.asFileAttribute(permissions)}
                : new FileAttribute<?>[0];
    }

    private static boolean isPosix(Path path) {
        return path.getFileSystem().supportedFileAttributeViews().contains("posix");
    }
}
