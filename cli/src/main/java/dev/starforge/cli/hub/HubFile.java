package dev.starforge.cli.hub;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

/**
 * A file of a repository as the hub describes it. Its name is untrusted: it must stay in the folder that it is put in.
 *
 * @param name a path in the repository, with slashes
 * @param hash of its content: SHA-256 of a large file, and what git calls it of a small one
 */
public record HubFile(String name, long size, Hash hash) {
    private static final byte[] POINTER =
            "version https://git-lfs.github.com/spec/v1".getBytes(StandardCharsets.US_ASCII);
    private static final int LARGEST_POINTER = 1024;
    private static final long LARGEST = 1L << 43; // the sizes of a whole listing can be added
    private static final List<String> PICKLES = List.of(".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle");

    /** @param git true for the SHA-1 of a git blob, false for SHA-256 */
    public record Hash(boolean git, String hex) {}

    public HubFile {
        boolean plain = !name.isEmpty()
                && size >= 0
                && size <= LARGEST
                && name.chars().noneMatch(c -> c < ' ' || c == '\\' || c == ':')
                && Arrays.stream(name.split("/", -1))
                        .noneMatch(part -> part.isEmpty() || part.equals(".") || part.equals(".."));
        if (!plain) {
            throw new HubException("invalid file name '" + HubConnection.shown(name) + "' or size " + size
                    + ": expected a path inside the folder; nothing was written");
        }
        if (!hash.hex().matches(hash.git() ? "[0-9a-f]{40}" : "[0-9a-f]{64}")) {
            throw new HubException("no hash for " + name + " (got '" + HubConnection.shown(hash.hex())
                    + "'); the file cannot be verified and was not downloaded");
        }
    }

    /** Returns true if loading the file can execute code. */
    public boolean isPickle() {
        return PICKLES.stream().anyMatch(name::endsWith);
    }

    /** Returns true for weight files. */
    public boolean isWeights() {
        return name.endsWith(".safetensors") || name.endsWith(".gguf");
    }

    /** The file for a partial download. Its name contains the hash, so that another version starts a new download. */
    Path incomplete(Path folder) {
        return folder.resolve(name + "." + hash.hex().substring(0, 12) + ".incomplete");
    }

    /** Returns true if the file has this size and hash. */
    boolean matches(Path file) throws IOException {
        return Files.size(file) == size && hex(file).equals(hash.hex());
    }

    String hex(Path file) throws IOException {
        try (InputStream in = Files.newInputStream(file)) {
            MessageDigest digest = MessageDigest.getInstance(hash.git() ? "SHA-1" : "SHA-256");
            if (hash.git()) {
                digest.update(("blob " + Files.size(file) + "\0").getBytes(StandardCharsets.US_ASCII));
            }
            byte[] piece = new byte[1 << 16];
            for (int read = in.read(piece); read >= 0; read = in.read(piece)) {
                digest.update(piece, 0, read);
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException missing) {
            throw new IllegalStateException(missing); // every JDK has them
        }
    }

    /** Returns true if the content is a Git LFS pointer. */
    public static boolean isLfsPointer(Path file) throws IOException {
        if (Files.size(file) > LARGEST_POINTER) {
            return false;
        }
        byte[] bytes = Files.readAllBytes(file);
        return bytes.length >= POINTER.length && Arrays.equals(bytes, 0, POINTER.length, POINTER, 0, POINTER.length);
    }
}
