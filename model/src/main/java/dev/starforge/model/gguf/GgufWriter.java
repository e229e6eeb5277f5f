package dev.starforge.model.gguf;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.AtomicFile;
import dev.starforge.model.file.SafetensorsWriter.FloatReader;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.BlockFormat;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Writes GGUF files, version 3, that llama.cpp loads. Tensors are produced one by one while the file is written, so a
 * model does not have to fit into memory. The file is written atomically.
 */
public final class GgufWriter {
    private static final int LONGEST_NAME = 63;
    private static final int PIECE = 1 << 20;

    private GgufWriter() {}

    /** Writes the bytes of a tensor to a channel. */
    @FunctionalInterface
    public interface TensorData {
        void write(WritableByteChannel out) throws IOException;
    }

    /** A tensor to write: name, type, row-major shape, and a callback that writes the bytes. */
    public record GgufEntry(String name, BlockFormat format, Shape shape, TensorData body) {
        /** A tensor that is encoded in chunks of whole rows. */
        public static GgufEntry of(String name, BlockFormat format, Shape shape, FloatReader values) {
            return new GgufEntry(name, format, shape, out -> {
                int piece = piece(shape);
                float[] floats = new float[piece];
                ByteBuffer bytes = ByteBuffer.allocate((int) format.bytes(piece));
                for (long done = 0; done < shape.size(); done += piece) {
                    int now = (int) Math.min(piece, shape.size() - done);
                    values.read(done, floats, now);
                    format.encode(floats, 0, now, bytes.clear().limit((int) format.bytes(now)), 0);
                    AtomicFile.put(out, bytes);
                }
            });
        }

        /** A tensor whose values are in memory. */
        public static GgufEntry of(String name, BlockFormat format, Shape shape, float... values) {
            return of(name, format, shape, (first, out, count) -> {
                if (values.length != shape.size()) {
                    throw new ShapeException("expected " + shape.size() + " values, got " + values.length);
                }
                System.arraycopy(values, Math.toIntExact(first), out, 0, count);
            });
        }

        /** A copy of a tensor of another file. */
        public static GgufEntry copy(GgufFile file, GgufFile.GgufTensorInfo stored) {
            return new GgufEntry(stored.name(), stored.format(), stored.shape(), out -> {
                for (long at = 0; at < stored.bytes(); at += PIECE) {
                    ByteBuffer bytes = ByteBuffer.allocate((int) Math.min(PIECE, stored.bytes() - at));
                    file.read(stored, at, bytes);
                    AtomicFile.put(out, bytes.flip());
                }
            });
        }

        public long bytes() {
            return format.bytes(shape.size());
        }
    }

    /**
     * Returns the number of elements of a tensor that are in memory at a time: whole rows, about a million elements.
     */
    public static int piece(Shape shape) {
        long rows = Math.max(1, PIECE / shape.last());
        return Math.toIntExact(Math.min(shape.size(), rows * shape.last()));
    }

    /** Writes a file. Uses the alignment of the key {@code general.alignment} if present. */
    public static void write(Path path, Map<String, GgufValue> metadata, List<GgufEntry> entries) {
        int alignment = alignment(path, metadata);
        byte[] head = head(path, metadata, entries);
        AtomicFile.write(path, out -> {
            AtomicFile.put(out, ByteBuffer.wrap(head));
            for (GgufEntry entry : entries) {
                pad(out, alignment);
                write(path, out, entry);
            }
            pad(out, alignment);
        });
    }

    private static void check(Path path, List<GgufEntry> entries) {
        Set<String> names = new HashSet<>();
        for (GgufEntry entry : entries) {
            int length = entry.name().getBytes(StandardCharsets.UTF_8).length;
            if (length == 0 || length > LONGEST_NAME || !names.add(entry.name())) {
                throw new ModelException(
                        path,
                        "tensor name '" + entry.name() + "': expected a new one of 1.." + LONGEST_NAME + " bytes");
            }
            if (!entry.format().isInGguf()) {
                throw new ModelException(path, "tensor " + entry.name() + ": GGUF has no type " + entry.format());
            }
            int rank = entry.shape().rank();
            if (rank < 1
                    || rank > GgufFile.MAX_DIMENSIONS
                    || entry.shape().last() % entry.format().blockElements() != 0) {
                throw new ModelException(
                        path,
                        "tensor " + entry.name() + ": shape " + entry.shape() + ", expected 1.."
                                + GgufFile.MAX_DIMENSIONS + " dimensions and rows of whole blocks of "
                                + entry.format().blockElements());
            }
        }
    }

    public static int alignment(Path path, Map<String, GgufValue> metadata) {
        return GgufFile.alignment(metadata)
                .orElseThrow(() -> new ModelException(path, GgufFile.wrongAlignment(metadata)));
    }

    public static void write(Path path, FileChannel out, GgufEntry entry) throws IOException {
        long begin = out.position();
        try {
            entry.body().write(out);
        } catch (TensorException wrong) {
            throw new ModelException(path, "tensor " + entry.name() + ": " + wrong.getMessage(), wrong);
        }
        long expected = entry.bytes();
        if (out.position() - begin != expected) {
            throw new ModelException(
                    path,
                    "tensor " + entry.name() + ": expected " + expected + " bytes, got " + (out.position() - begin));
        }
    }

    /** Returns the header, without padding. Throws if an entry or a metadata value is invalid. */
    public static byte[] head(Path path, Map<String, GgufValue> metadata, List<GgufEntry> entries) {
        int alignment = alignment(path, metadata);
        check(path, entries);
        HeaderBuilder head = new HeaderBuilder();
        head.int32(GgufFile.MAGIC);
        head.int32(GgufFile.VERSION);
        head.int64(entries.size());
        head.int64(metadata.size());
        metadata.forEach((key, value) -> {
            head.string(key);
            head.value(value);
        });
        long begin = 0;
        for (GgufEntry entry : entries) {
            head.string(entry.name());
            head.int32(entry.shape().rank());
            for (int axis = entry.shape().rank() - 1; axis >= 0; axis--) {
                head.int64(entry.shape().dim(axis));
            }
            head.int32(entry.format().ggufId());
            head.int64(begin);
            begin = GgufFile.align(begin + entry.bytes(), alignment);
        }
        return head.out.toByteArray();
    }

    public static void pad(FileChannel out, int alignment) throws IOException {
        long missing = GgufFile.align(out.position(), alignment) - out.position();
        AtomicFile.put(out, ByteBuffer.allocate((int) missing));
    }

    /** Builds the header. */
    private static final class HeaderBuilder {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();

        void int32(int value) {
            number(value, 4);
        }

        void int64(long value) {
            number(value, 8);
        }

        void number(long value, int bytes) {
            for (int i = 0; i < bytes; i++) {
                out.write((int) (value >>> 8 * i));
            }
        }

        void string(String value) {
            byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
            int64(bytes.length);
            out.writeBytes(bytes);
        }

        void value(GgufValue value) {
            switch (value) {
                case GgufValue.IntValue(GgufValue.GgufValueType type, long number) -> {
                    int32(type.ordinal());
                    number(number, type.bytes());
                }
                case GgufValue.FloatValue(GgufValue.GgufValueType type, double number) -> {
                    int32(type.ordinal());
                    boolean single = type == GgufValue.GgufValueType.FLOAT32;
                    number(
                            single ? Float.floatToRawIntBits((float) number) : Double.doubleToRawLongBits(number),
                            type.bytes());
                }
                case GgufValue.BoolValue(boolean flag) -> {
                    int32(GgufValue.GgufValueType.BOOL.ordinal());
                    number(flag ? 1 : 0, 1);
                }
                case GgufValue.StringValue(String text) -> {
                    int32(GgufValue.GgufValueType.STRING.ordinal());
                    string(text);
                }
                case GgufValue.StringArray(List<String> texts) -> {
                    list(GgufValue.GgufValueType.STRING, texts.size());
                    texts.forEach(this::string);
                }
                case GgufValue.NumberArray numbers -> {
                    list(numbers.element(), numbers.size());
                    byte[] bytes = new byte[numbers.bytes().limit()];
                    numbers.bytes().get(0, bytes);
                    out.writeBytes(bytes);
                }
            }
        }

        private void list(GgufValue.GgufValueType element, int size) {
            int32(GgufValue.GgufValueType.ARRAY.ordinal());
            int32(element.ordinal());
            int64(size);
        }
    }
}
