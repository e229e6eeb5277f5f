package dev.starforge.model.gguf;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes GGUF bytes as told, right or wrong. */
final class RawGguf {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    /** A head that is right so far. */
    static RawGguf head(long tensors, long pairs) {
        return new RawGguf().int32(GgufFile.MAGIC).int32(3).int64(tensors).int64(pairs);
    }

    RawGguf int32(int value) {
        return number(value, 4);
    }

    RawGguf int64(long value) {
        return number(value, 8);
    }

    RawGguf string(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return int64(bytes.length).bytes(bytes);
    }

    RawGguf bytes(byte... bytes) {
        out.writeBytes(bytes);
        return this;
    }

    /** A pair with a UINT32. */
    RawGguf pair(String key, int value) {
        return string(key).int32(GgufValue.GgufValueType.UINT32.ordinal()).int32(value);
    }

    /** A row of the table of tensors. */
    RawGguf tensor(String name, int type, long offset, long... dims) {
        string(name).int32(dims.length);
        for (long dim : dims) {
            int64(dim);
        }
        return int32(type).int64(offset);
    }

    /** Zeros up to the alignment, and so many bytes of data. */
    RawGguf data(int bytes) {
        return bytes(new byte[Math.ceilDiv(out.size(), 32) * 32 - out.size() + bytes]);
    }

    Path save(Path path) throws IOException {
        return Files.write(path, out.toByteArray());
    }

    private RawGguf number(long value, int bytes) {
        for (int i = 0; i < bytes; i++) {
            out.write((int) (value >>> 8 * i));
        }
        return this;
    }
}
