package dev.starforge.data.dataset.io;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.Deflater;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/** Files of JSON lines with the code of a whole history, which gzip makes about five times smaller. */
public final class CompressedLines {
    private static final int BUFFER = 1 << 16;

    private CompressedLines() {}

    /** Creates a file. */
    public static OutputStream create(Path file) throws IOException {
        return new BufferedOutputStream(new FastGzip(Files.newOutputStream(file)), 1 << 20);
    }

    /** Opens a file, or the uncompressed one without {@code .gz} that older versions of this program wrote. */
    public static BufferedReader open(Path file) throws IOException {
        String name = file.getFileName().toString();
        Path plain = file.resolveSibling(name.replaceFirst("\\.gz$", ""));
        return !plain.equals(file) && Files.exists(plain)
                ? Files.newBufferedReader(plain)
                : new BufferedReader(new InputStreamReader(
                        new GZIPInputStream(Files.newInputStream(file), BUFFER), StandardCharsets.UTF_8));
    }

    private static final class FastGzip extends GZIPOutputStream {
        FastGzip(OutputStream out) throws IOException {
            super(out, BUFFER);
            def.setLevel(Deflater.BEST_SPEED);
        }
    }
}
