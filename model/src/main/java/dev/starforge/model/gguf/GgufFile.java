package dev.starforge.model.gguf;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.Pickle;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.BlockFormat;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/**
 * A GGUF file, version 2 or 3, little-endian: metadata, tensor infos, and the data of the tensors in order, aligned.
 * The file is untrusted. Sizes are computed without overflow and checked against the file size before memory is
 * allocated, so {@code open} needs no more memory than the header, which is at most 100 MB. Data is read on request.
 * {@link GgufWriter} writes these files.
 */
public final class GgufFile implements AutoCloseable {
    static final int MAGIC = 'G' | 'G' << 8 | 'U' << 16 | 'F' << 24;
    static final int VERSION = 3;
    static final int MAX_DIMENSIONS = 4;

    private static final List<BlockFormat> KNOWN =
            Arrays.stream(BlockFormat.values()).filter(BlockFormat::isInGguf).toList();

    private static final String ALIGNMENT_KEY = "general.alignment";
    private static final int DEFAULT_ALIGNMENT = 32;
    private static final int LARGEST_ALIGNMENT = 1 << 20;
    private static final long LARGEST_HEAD = 100L << 20;
    private static final int SMALLEST_PAIR = 8 + 1 + 4 + 1;
    private static final int SMALLEST_TENSOR = 8 + 1 + 4 + 4 + 8;
    private static final int PIECE = 1 << 20;

    private final Path path;
    private final FileChannel channel;
    private final int version;
    private final Map<String, GgufValue> metadata;
    private final long dataStart;
    private final Map<String, GgufTensorInfo> tensors;

    /**
     * A tensor in the file.
     *
     * @param shape row-major, the reverse of the order in which the file lists dimensions
     * @param begin first byte, counted from the start of the data
     */
    public record GgufTensorInfo(String name, BlockFormat format, Shape shape, long begin, long bytes) {}

    private GgufFile(
            Path path,
            FileChannel channel,
            int version,
            Map<String, GgufValue> metadata,
            long dataStart,
            Map<String, GgufTensorInfo> tensors) {
        this.path = path;
        this.channel = channel;
        this.version = version;
        this.metadata = Collections.unmodifiableMap(metadata);
        this.dataStart = dataStart;
        this.tensors = Collections.unmodifiableMap(tensors);
    }

    /** Returns true for a GGUF file of any name; the model files of Ollama are named after their hash. */
    public static boolean isGguf(Path path) {
        if (!Files.isRegularFile(path)) {
            return false;
        }
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            ByteBuffer start = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
            while (start.hasRemaining() && channel.read(start) >= 0) {}
            return !start.hasRemaining() && start.getInt(0) == MAGIC;
        } catch (IOException failure) {
            throw new ModelException(path, "cannot be read: " + failure, failure);
        }
    }

    public static GgufFile open(Path path) {
        if (!isGguf(path)) {
            Pickle.refuse(path);
        }
        try {
            FileChannel channel = FileChannel.open(path, StandardOpenOption.READ);
            try {
                return open(path, channel);
            } catch (RuntimeException | IOException failure) {
                channel.close();
                throw failure;
            }
        } catch (IOException failure) {
            throw new ModelException(path, "cannot be read: " + failure, failure);
        }
    }

    private static GgufFile open(Path path, FileChannel channel) throws IOException {
        long size = channel.size();
        GgufCursor in = new GgufCursor(path, channel, Math.min(size, LARGEST_HEAD));
        int version = version(in);
        int tensorCount = in.count("number of tensors", SMALLEST_TENSOR);
        int pairCount = in.count("number of metadata pairs", SMALLEST_PAIR);
        Map<String, GgufValue> metadata = new LinkedHashMap<>();
        for (int i = 0; i < pairCount; i++) {
            long offset = in.position();
            String key = in.string("metadata key");
            if (key.isEmpty() || metadata.containsKey(key)) {
                throw in.wrong(offset, "metadata key '" + key + "': expected a new name");
            }
            metadata.put(key, value(in, key));
        }
        int alignment = alignment(metadata).orElseThrow(() -> in.wrong(in.position(), wrongAlignment(metadata)));
        Map<String, GgufTensorInfo> tensors = new LinkedHashMap<>();
        long end = 0;
        for (int i = 0; i < tensorCount; i++) {
            GgufTensorInfo stored = stored(in, align(end, alignment), tensors);
            tensors.put(stored.name(), stored);
            end = stored.begin() + stored.bytes();
            if (end < 0 || end > size) {
                throw in.wrong(
                        in.position() - 8,
                        "tensor " + stored.name() + " ends at byte " + Long.toUnsignedString(end)
                                + " of the data, the file has " + size);
            }
        }
        long dataStart = align(in.position(), alignment);
        if (tensorCount > 0 && dataStart + end > size) {
            throw in.wrong(dataStart, "the tensors take " + end + " bytes, the file has " + size + " in all");
        }
        return new GgufFile(path, channel, version, metadata, dataStart, tensors);
    }

    private static int version(GgufCursor in) throws IOException {
        int magic = in.int32("magic number");
        if (magic != MAGIC) {
            throw in.wrong(0, String.format("expected the letters GGUF, got bytes %08x", Integer.reverseBytes(magic)));
        }
        int version = in.int32("version");
        if ((version & 0xffff) == 0 && version != 0) {
            throw in.wrong(
                    4,
                    "the file is big-endian (version " + Integer.reverseBytes(version)
                            + " read backwards), expected little-endian");
        }
        if (version < 2 || version > VERSION) {
            throw in.wrong(4, "version " + Integer.toUnsignedString(version) + ", expected 2 or 3");
        }
        return version;
    }

    private static GgufValue value(GgufCursor in, String key) throws IOException {
        GgufValue.GgufValueType type = type(in, key);
        return switch (type) {
            case STRING -> new GgufValue.StringValue(in.string("value of " + key));
            case ARRAY -> list(in, key);
            default -> new GgufValue.NumberArray(type, in.bytes(type.bytes(), key)).single();
        };
    }

    private static GgufValue list(GgufCursor in, String key) throws IOException {
        long offset = in.position();
        GgufValue.GgufValueType element = type(in, key);
        if (element == GgufValue.GgufValueType.ARRAY) {
            throw in.wrong(offset, "metadata " + key + ": arrays of arrays are not supported");
        }
        if (element == GgufValue.GgufValueType.STRING) {
            int count = in.count(key, 8);
            List<String> values = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                values.add(in.string(key));
            }
            return new GgufValue.StringArray(values);
        }
        int count = in.count(key, element.bytes());
        return new GgufValue.NumberArray(element, in.bytes(count * element.bytes(), key));
    }

    private static GgufValue.GgufValueType type(GgufCursor in, String key) throws IOException {
        int id = in.int32("type of " + key);
        GgufValue.GgufValueType[] types = GgufValue.GgufValueType.values();
        if (id < 0 || id >= types.length) {
            throw in.wrong(
                    in.position() - 4,
                    "metadata " + key + ": type " + Integer.toUnsignedString(id) + ", expected 0.."
                            + (types.length - 1));
        }
        return types[id];
    }

    /** Returns the alignment of the metadata (32 by default), or empty if it is invalid. */
    static OptionalInt alignment(Map<String, GgufValue> metadata) {
        return metadata.getOrDefault(ALIGNMENT_KEY, GgufValue.u32(DEFAULT_ALIGNMENT))
                                instanceof GgufValue.IntValue(GgufValue.GgufValueType type, long value)
                        && type == GgufValue.GgufValueType.UINT32
                        && value <= LARGEST_ALIGNMENT
                        && Long.bitCount(value) == 1
                ? OptionalInt.of((int) value)
                : OptionalInt.empty();
    }

    static String wrongAlignment(Map<String, GgufValue> metadata) {
        return ALIGNMENT_KEY + ": expected a UINT32 power of two up to " + LARGEST_ALIGNMENT + ", got "
                + metadata.get(ALIGNMENT_KEY);
    }

    public static long align(long offset, int alignment) {
        return Math.ceilDiv(offset, alignment) * alignment;
    }

    private static GgufTensorInfo stored(GgufCursor in, long expectedBegin, Map<String, GgufTensorInfo> others)
            throws IOException {
        long offset = in.position();
        String name = in.string("tensor name");
        if (name.isEmpty() || others.containsKey(name)) {
            throw in.wrong(offset, "tensor name '" + name + "': expected a new name");
        }
        int rank = in.int32("rank of tensor " + name);
        if (rank < 0 || rank > MAX_DIMENSIONS) {
            throw in.wrong(
                    in.position() - 4,
                    "tensor " + name + ": " + Integer.toUnsignedString(rank) + " dimensions, expected 0.."
                            + MAX_DIMENSIONS);
        }
        long[] dims = new long[rank];
        for (int i = rank - 1; i >= 0; i--) {
            dims[i] = in.int64("dimension of tensor " + name);
        }
        BlockFormat format = format(in, name);
        Shape shape = shape(in, name, format, dims);
        long begin = in.int64("offset of tensor " + name);
        if (begin != expectedBegin) {
            throw in.wrong(
                    in.position() - 8,
                    "tensor " + name + ": begins at byte " + Long.toUnsignedString(begin) + " of the data, expected "
                            + expectedBegin + ", the next multiple of the alignment");
        }
        return new GgufTensorInfo(name, format, shape, begin, format.bytes(shape.size()));
    }

    private static BlockFormat format(GgufCursor in, String name) throws IOException {
        int id = in.int32("type of tensor " + name);
        for (BlockFormat format : KNOWN) {
            if (format.ggufId() == id) {
                return format;
            }
        }
        throw in.wrong(
                in.position() - 4,
                "tensor " + name + ": type " + Integer.toUnsignedString(id) + ", expected one of " + KNOWN);
    }

    /** Returns the shape. Throws if rows do not fill whole blocks or the size in bytes overflows. */
    private static Shape shape(GgufCursor in, String name, BlockFormat format, long[] dims) {
        try {
            Shape shape = Shape.of(dims);
            format.bytes(shape.last());
            format.bytes(shape.size());
            return shape;
        } catch (TensorException wrong) {
            throw in.wrong(in.position(), "tensor " + name + ": " + wrong.getMessage());
        }
    }

    public Path path() {
        return path;
    }

    public int version() {
        return version;
    }

    public Map<String, GgufValue> metadata() {
        return metadata;
    }

    public Map<String, GgufTensorInfo> tensors() {
        return tensors;
    }

    public boolean has(String name) {
        return tensors.containsKey(name);
    }

    public GgufTensorInfo tensor(String name) {
        GgufTensorInfo stored = tensors.get(name);
        if (stored == null) {
            throw new ModelException(path, "has no tensor " + name);
        }
        return stored;
    }

    /** Returns the file region of {@code bytes} bytes of a tensor from {@code offset} on. */
    FileRegion region(GgufTensorInfo tensor, long offset, long bytes) {
        return new FileRegion(path, dataStart + tensor.begin() + offset, bytes);
    }

    /** Fills {@code into} with a tensor's bytes from {@code offset} on. */
    public void read(GgufTensorInfo tensor, long offset, ByteBuffer into) {
        if (offset < 0 || into.remaining() > tensor.bytes() - offset) {
            throw new ModelException(
                    path,
                    "tensor " + tensor.name() + ": asked for " + into.remaining() + " bytes at " + offset + " of "
                            + tensor.bytes());
        }
        long position = dataStart + tensor.begin() + offset;
        try {
            while (into.hasRemaining()) {
                int count = channel.read(into, position);
                if (count < 0) {
                    throw new EOFException(
                            "unexpected end of file at byte " + position + ", " + into.remaining() + " bytes missing");
                }
                position += count;
            }
        } catch (IOException failure) {
            throw new ModelException(path, "tensor " + tensor.name() + " at byte " + offset + ": " + failure, failure);
        }
    }

    /** Reads a whole tensor as floats. */
    public float[] readFloats(String name) {
        GgufTensorInfo stored = tensor(name);
        if (stored.shape().size() > Integer.MAX_VALUE - 8) {
            throw new ModelException(path, "tensor " + name + ": " + stored.shape() + " does not fit into one array");
        }
        float[] values = new float[(int) stored.shape().size()];
        readFloats(stored, 0, values, 0, values.length);
        return values;
    }

    /**
     * Reads elements {@code first} to {@code first + count - 1} of a tensor as floats. Both must be multiples of its
     * block size.
     */
    public void readFloats(GgufTensorInfo tensor, long first, float[] out, int at, int count) {
        BlockFormat format = tensor.format();
        int piece = Math.min(count, PIECE / format.blockBytes() * format.blockElements());
        ByteBuffer bytes = ByteBuffer.allocate((int) format.bytes(piece));
        for (int done = 0; done < count; done += piece) {
            int now = Math.min(piece, count - done);
            read(tensor, format.bytes(first + done), bytes.clear().limit((int) format.bytes(now)));
            format.decode(bytes, 0, out, at + done, now);
        }
    }

    public boolean hasKey(String key) {
        return metadata.containsKey(key);
    }

    public String string(String key) {
        if (metadata.get(key) instanceof GgufValue.StringValue(String value)) {
            return value;
        }
        throw invalid(key, "a string");
    }

    public String string(String key, String defaultValue) {
        return hasKey(key) ? string(key) : defaultValue;
    }

    public int integer(String key) {
        if (metadata.get(key) instanceof GgufValue.IntValue(GgufValue.GgufValueType _, long value)
                && value == (int) value) {
            return (int) value;
        }
        throw invalid(key, "a whole number below 2^31");
    }

    public int integer(String key, int defaultValue) {
        return hasKey(key) ? integer(key) : defaultValue;
    }

    public double number(String key) {
        return switch (metadata.get(key)) {
            case GgufValue.FloatValue(GgufValue.GgufValueType _, double value) when Double.isFinite(value) -> value;
            case GgufValue.IntValue(GgufValue.GgufValueType _, long value) -> value;
            case null, default -> throw invalid(key, "a number");
        };
    }

    public double number(String key, double defaultValue) {
        return hasKey(key) ? number(key) : defaultValue;
    }

    public boolean bool(String key, boolean defaultValue) {
        if (!hasKey(key)) {
            return defaultValue;
        }
        if (metadata.get(key) instanceof GgufValue.BoolValue(boolean value)) {
            return value;
        }
        throw invalid(key, "true or false");
    }

    public List<String> strings(String key) {
        if (metadata.get(key) instanceof GgufValue.StringArray(List<String> values)) {
            return values;
        }
        throw invalid(key, "a list of strings");
    }

    /** Returns an array of numbers or booleans. */
    public GgufValue.NumberArray numbers(String key) {
        if (metadata.get(key) instanceof GgufValue.NumberArray numbers) {
            return numbers;
        }
        throw invalid(key, "a list of numbers");
    }

    /** Returns the exception for a key with an invalid value. */
    public ModelException invalid(String key, String expectation) {
        String got = switch (metadata.get(key)) {
            case null -> "nothing";
            case GgufValue.StringArray(List<String> values) -> values.size() + " strings";
            case GgufValue.NumberArray numbers -> numbers.size() + " of " + numbers.element();
            case GgufValue.StringValue(String value) -> "'" + value.substring(0, Math.min(80, value.length())) + "'";
            case GgufValue scalar -> scalar.toString();
        };
        return new ModelException(path, "metadata " + key + ": expected " + expectation + ", got " + got);
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException failure) {
            throw new ModelException(path, "cannot be closed: " + failure, failure);
        }
    }
}
