package dev.starforge.train;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** SHA-256 of files, in hex. */
final class Hashes {
    private static final int PIECE = 1 << 20;

    private Hashes() {}

    static String of(Path file) throws IOException {
        MessageDigest digest = sha256();
        byte[] bytes = new byte[PIECE];
        try (InputStream in = Files.newInputStream(file)) {
            for (int count = in.read(bytes); count >= 0; count = in.read(bytes)) {
                digest.update(bytes, 0, count);
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every Java has SHA-256", impossible);
        }
    }
}
