package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Writes safetensors in chunks, so that neither a tensor nor a file has to fit into memory. Each file is written
 * atomically (see {@link AtomicFile}).
 */
public final class SafetensorsWriter {
    private static final JsonMapper JSON =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();
    private static final int PIECE = 1 << 20;

    private SafetensorsWriter() {}

    /** Puts {@code count} elements from {@code first} on into a little-endian buffer, in the type of the file. */
    @FunctionalInterface
    public interface ElementWriter {
        void put(long first, int count, ByteBuffer into);
    }

    /** Reads {@code count} elements of a tensor from {@code first} on as floats. */
    @FunctionalInterface
    public interface FloatReader {
        void read(long first, float[] out, int count);
    }

    /** A tensor to write: name, type as the format spells it, shape, and a callback that supplies the elements. */
    public record SafetensorsEntry(String name, String dtype, Shape shape, ElementWriter body) {
        /** A tensor of floats, rounded to nearest even if the type is F16 or BF16. */
        public static SafetensorsEntry of(String name, String dtype, Shape shape, FloatReader values) {
            boolean whole = dtype.equals("F32");
            DType type = DType.valueOf(dtype);
            return new SafetensorsEntry(name, dtype, shape, (first, count, into) -> {
                float[] piece = new float[count];
                values.read(first, piece, count);
                for (int i = 0; i < count; i++) {
                    if (whole) {
                        into.putFloat(piece[i]);
                    } else {
                        into.putShort(type.narrow(piece[i]));
                    }
                }
            });
        }

        /** A tensor of a device, in its own type: F32, F16, BF16 or I32. */
        public static SafetensorsEntry of(String name, Tensor tensor, Device device) {
            return new SafetensorsEntry(
                    name,
                    tensor.dtype().name(),
                    tensor.shape(),
                    (first, count, into) -> device.read(tensor.view(first, Shape.of(count)), into));
        }

        long bytes() {
            return shape.size() * SafetensorsType.valueOf(dtype).bytes();
        }
    }

    /** Writes one file. */
    public static void write(Path path, List<SafetensorsEntry> entries) {
        write(path, entries, Map.of());
    }

    /** Writes one file with additional metadata, which other programs ignore. */
    public static void write(Path path, List<SafetensorsEntry> entries, Map<String, String> metadata) {
        ObjectNode header = new JsonMapper().createObjectNode();
        ObjectNode metadataNode = header.putObject("__metadata__").put("format", "pt");
        metadata.forEach(metadataNode::put);
        long at = 0;
        for (SafetensorsEntry entry : entries) {
            ObjectNode node = header.putObject(entry.name());
            node.put("dtype", entry.dtype());
            node.putArray("shape");
            for (long dim : entry.shape().dims()) {
                node.withArray("shape").add(dim);
            }
            node.putArray("data_offsets").add(at).add(at + entry.bytes());
            at += entry.bytes();
        }
        byte[] json = new JsonMapper().writeValueAsString(header).getBytes(StandardCharsets.UTF_8);
        byte[] padded = Arrays.copyOf(json, (json.length + 7) / 8 * 8);
        Arrays.fill(padded, json.length, padded.length, (byte) ' ');
        AtomicFile.write(path, out -> {
            ByteBuffer length = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
            AtomicFile.put(out, length.putLong(padded.length).flip());
            AtomicFile.put(out, ByteBuffer.wrap(padded));
            for (SafetensorsEntry entry : entries) {
                write(out, entry);
            }
        });
    }

    /**
     * Writes a model's tensors in HF's layout: {@code model.safetensors}, or shards of at most {@code shardBytes} with
     * their index.
     */
    public static void writeModel(Path folder, List<SafetensorsEntry> entries, long shardBytes) {
        List<List<SafetensorsEntry>> shards = new ArrayList<>();
        long filled = Long.MAX_VALUE;
        for (SafetensorsEntry entry : entries) {
            if (filled > shardBytes - entry.bytes()) {
                shards.add(new ArrayList<>());
                filled = 0;
            }
            shards.getLast().add(entry);
            filled += entry.bytes();
        }
        if (shards.size() == 1) {
            write(folder.resolve("model.safetensors"), shards.getFirst());
            return;
        }
        ObjectNode index = JSON.createObjectNode();
        index.putObject("metadata")
                .put(
                        "total_size",
                        entries.stream().mapToLong(SafetensorsEntry::bytes).sum());
        ObjectNode map = index.putObject("weight_map");
        for (int i = 0; i < shards.size(); i++) {
            String name = String.format(Locale.ROOT, "model-%05d-of-%05d.safetensors", i + 1, shards.size());
            write(folder.resolve(name), shards.get(i));
            shards.get(i).forEach(entry -> map.put(entry.name(), name));
        }
        Path path = folder.resolve("model.safetensors.index.json");
        try {
            Files.writeString(path, JSON.writeValueAsString(index) + "\n");
        } catch (IOException failure) {
            throw new ModelException(path, "cannot be written: " + failure, failure);
        }
    }

    private static void write(FileChannel out, SafetensorsEntry entry) throws IOException {
        long size = entry.shape().size();
        int piece = (int) Math.min(PIECE, size);
        int width = SafetensorsType.valueOf(entry.dtype()).bytes();
        ByteBuffer bytes = ByteBuffer.allocateDirect(piece * width);
        for (long first = 0; first < size; first += piece) {
            int count = (int) Math.min(piece, size - first);
            ByteBuffer into = bytes.clear().limit(count * width).slice().order(ByteOrder.LITTLE_ENDIAN);
            entry.body().put(first, count, into);
            AtomicFile.put(out, into.rewind());
        }
    }
}
