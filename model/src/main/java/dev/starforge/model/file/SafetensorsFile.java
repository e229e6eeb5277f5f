package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * A safetensors file: eight bytes of header length, a JSON header, raw little-endian data. The file is untrusted: the
 * header size is limited, and the tensors must match their shapes and cover the data without overlaps or holes, as the
 * format demands. Data is read on request.
 */
public final class SafetensorsFile implements Safetensors {
    private static final long LARGEST_HEADER = 100L << 20;
    private static final JsonMapper JSON = JsonMapper.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();

    private final Path path;
    private final FileChannel channel;
    private final long dataStart;
    private final Map<String, SafetensorsTensor> tensors;
    private final Map<String, String> metadata;

    /**
     * A tensor in the file.
     *
     * @param dtype as the header spells it
     * @param begin first byte, counted from the start of the data
     */
    public record SafetensorsTensor(String name, String dtype, Shape shape, long begin, long end) {
        public long bytes() {
            return end - begin;
        }
    }

    /** A tensor to write: name, type as the format spells it, shape, and little-endian bytes. */
    public record SafetensorsData(String name, String dtype, Shape shape, ByteBuffer data) {
        public static SafetensorsData of(String name, Shape shape, float... values) {
            ByteBuffer data = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
            data.asFloatBuffer().put(values);
            return new SafetensorsData(name, "F32", shape, data);
        }

        public static SafetensorsData of(String name, Shape shape, int... values) {
            ByteBuffer data = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
            data.asIntBuffer().put(values);
            return new SafetensorsData(name, "I32", shape, data);
        }
    }

    private SafetensorsFile(
            Path path,
            FileChannel channel,
            long dataStart,
            Map<String, SafetensorsTensor> tensors,
            Map<String, String> metadata) {
        this.path = path;
        this.channel = channel;
        this.dataStart = dataStart;
        this.tensors = tensors;
        this.metadata = metadata;
    }

    public static SafetensorsFile open(Path path) {
        Pickle.refuse(path);
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

    private static SafetensorsFile open(Path path, FileChannel channel) throws IOException {
        long size = channel.size();
        if (size < 8) {
            throw new ModelException(path, "expected 8 bytes of header length at offset 0, the file has " + size);
        }
        ByteBuffer length = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
        readFully(channel, 0, length);
        long headerBytes = length.getLong(0);
        if (headerBytes < 2 || headerBytes > LARGEST_HEADER || headerBytes > size - 8) {
            throw new ModelException(
                    path,
                    "header length " + Long.toUnsignedString(headerBytes) + " at offset 0: expected 2.."
                            + Math.min(LARGEST_HEADER, size - 8));
        }
        ByteBuffer header = ByteBuffer.allocate((int) headerBytes);
        readFully(channel, 8, header);
        if (header.get(0) != '{') {
            throw new ModelException(path, "offset 8: expected a JSON object, got byte " + header.get(0));
        }
        JsonNode json;
        try {
            json = JSON.readTree(new String(header.array(), StandardCharsets.UTF_8));
        } catch (JacksonException failure) {
            throw new ModelException(path, "header at offset 8 is not JSON: " + failure.getOriginalMessage(), failure);
        }
        long dataBytes = size - 8 - headerBytes;
        Map<String, SafetensorsTensor> tensors = new LinkedHashMap<>();
        Map<String, String> metadata = new LinkedHashMap<>();
        json.path("__metadata__").properties().forEach(entry -> {
            if (entry.getValue().isString()) {
                metadata.put(entry.getKey(), entry.getValue().stringValue());
            }
        });
        for (Map.Entry<String, JsonNode> entry : json.properties()) {
            if (!entry.getKey().equals("__metadata__")) {
                tensors.put(entry.getKey(), stored(path, entry.getKey(), entry.getValue(), dataBytes));
            }
        }
        checkTiling(path, tensors, dataBytes);
        return new SafetensorsFile(path, channel, 8 + headerBytes, Collections.unmodifiableMap(tensors), metadata);
    }

    private static SafetensorsTensor stored(Path path, String name, JsonNode node, long dataBytes) {
        JsonNode dtype = node.path("dtype");
        JsonNode dims = node.path("shape");
        JsonNode offsets = node.path("data_offsets");
        if (!dtype.isString() || !dims.isArray() || !offsets.isArray() || offsets.size() != 2) {
            throw new ModelException(path, "tensor " + name + ": expected dtype, shape and two data_offsets");
        }
        long[] shape = new long[dims.size()];
        for (int i = 0; i < shape.length; i++) {
            shape[i] = whole(path, name, dims.get(i));
        }
        long begin = whole(path, name, offsets.get(0));
        long end = whole(path, name, offsets.get(1));
        if (begin > end || end > dataBytes) {
            throw new ModelException(
                    path, "tensor " + name + ": bytes " + begin + ".." + end + " of " + dataBytes + " bytes of data");
        }
        try {
            Shape checked = Shape.of(shape);
            long expected = Math.multiplyExact(checked.size(), (long) elementBytes(path, name, dtype.stringValue()));
            if (expected != end - begin) {
                throw new ModelException(
                        path,
                        "tensor " + name + ": " + dtype.stringValue() + checked + " takes " + expected
                                + " bytes, its offsets give " + (end - begin));
            }
            return new SafetensorsTensor(name, dtype.stringValue(), checked, begin, end);
        } catch (ShapeException | ArithmeticException overflow) {
            throw new ModelException(path, "tensor " + name + ": " + overflow.getMessage(), overflow);
        }
    }

    private static long whole(Path path, String name, JsonNode node) {
        if (!node.isIntegralNumber() || !node.canConvertToLong() || node.longValue() < 0) {
            throw new ModelException(path, "tensor " + name + ": expected a whole number, got " + node);
        }
        return node.longValue();
    }

    private static int elementBytes(Path path, String name, String dtype) {
        if (!SafetensorsType.isKnown(dtype)) {
            throw new ModelException(path, "tensor " + name + ": unknown dtype " + dtype);
        }
        return SafetensorsType.valueOf(dtype).bytes();
    }

    private static void checkTiling(Path path, Map<String, SafetensorsTensor> tensors, long dataBytes) {
        List<SafetensorsTensor> inOrder = new ArrayList<>(tensors.values());
        inOrder.sort(Comparator.comparingLong(SafetensorsTensor::begin).thenComparingLong(SafetensorsTensor::end));
        long at = 0;
        for (SafetensorsTensor stored : inOrder) {
            if (stored.begin() != at) {
                throw new ModelException(
                        path,
                        "tensor " + stored.name() + ": begins at " + stored.begin() + ", expected " + at
                                + (stored.begin() < at ? " (overlap)" : " (hole)"));
            }
            at = stored.end();
        }
        if (at != dataBytes) {
            throw new ModelException(path, "the tensors end at " + at + ", the data has " + dataBytes + " bytes");
        }
    }

    @Override
    public Path path() {
        return path;
    }

    @Override
    public Map<String, SafetensorsTensor> tensors() {
        return tensors;
    }

    /** Returns a metadata value, or {@code defaultValue} if the file does not have the key. */
    public String metadata(String key, String defaultValue) {
        return metadata.getOrDefault(key, defaultValue);
    }

    @Override
    public void read(SafetensorsTensor tensor, long offset, ByteBuffer into) {
        if (offset < 0 || into.remaining() > tensor.bytes() - offset) {
            throw new ModelException(
                    path,
                    "tensor " + tensor.name() + ": asked for " + into.remaining() + " bytes at " + offset + " of "
                            + tensor.bytes());
        }
        try {
            readFully(channel, dataStart + tensor.begin() + offset, into);
        } catch (IOException failure) {
            throw new ModelException(path, "tensor " + tensor.name() + " at byte " + offset + ": " + failure, failure);
        }
    }

    @Override
    public FileRegion region(SafetensorsTensor tensor) {
        return new FileRegion(path, dataStart + tensor.begin(), tensor.bytes());
    }

    private static void readFully(FileChannel channel, long position, ByteBuffer into) throws IOException {
        while (into.hasRemaining()) {
            int count = channel.read(into, position);
            if (count < 0) {
                throw new EOFException(
                        "unexpected end of file at byte " + position + ", " + into.remaining() + " bytes missing");
            }
            position += count;
        }
    }

    /** Writes a file atomically (see {@link AtomicFile}). */
    public static void write(Path path, List<SafetensorsData> entries) {
        ObjectNode header = JSON.createObjectNode();
        header.putObject("__metadata__").put("format", "pt");
        long at = 0;
        for (SafetensorsData entry : entries) {
            ObjectNode node = header.putObject(entry.name());
            node.put("dtype", entry.dtype());
            for (long dim : entry.shape().dims()) {
                node.withArray("shape").add(dim);
            }
            if (entry.shape().rank() == 0) {
                node.putArray("shape");
            }
            node.putArray("data_offsets").add(at).add(at + entry.data().remaining());
            at += entry.data().remaining();
        }
        byte[] json = JSON.writeValueAsString(header).getBytes(StandardCharsets.UTF_8);
        byte[] padded = Arrays.copyOf(json, (json.length + 7) / 8 * 8);
        Arrays.fill(padded, json.length, padded.length, (byte) ' ');
        AtomicFile.write(path, out -> {
            AtomicFile.put(
                    out,
                    ByteBuffer.allocate(8)
                            .order(ByteOrder.LITTLE_ENDIAN)
                            .putLong(padded.length)
                            .flip());
            AtomicFile.put(out, ByteBuffer.wrap(padded));
            for (SafetensorsData entry : entries) {
                AtomicFile.put(out, entry.data().duplicate());
            }
        });
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
