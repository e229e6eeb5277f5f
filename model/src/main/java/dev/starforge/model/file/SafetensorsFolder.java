package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.FileRegion;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * The weights of a folder in HF's layout: {@code model.safetensors}, or shards and an index from tensors to shards. The
 * index is untrusted: a shard must be a file name, and the file, with links resolved, must be in the folder. Each
 * tensor must be in the shard that the index names and in no other shard.
 */
public final class SafetensorsFolder implements Safetensors {
    private static final String SINGLE = "model.safetensors";
    private static final String INDEX = "model.safetensors.index.json";
    private static final long LARGEST_INDEX = 100L << 20;
    private static final JsonMapper JSON = JsonMapper.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();

    private final Path folder;
    private final Map<String, SafetensorsFile> shards = new LinkedHashMap<>();
    private final Map<String, SafetensorsFile.SafetensorsTensor> tensors = new LinkedHashMap<>();
    private final Map<String, SafetensorsFile> homes = new LinkedHashMap<>();

    private SafetensorsFolder(Path folder) {
        this.folder = folder;
    }

    public static SafetensorsFolder open(Path folder) {
        if (Files.exists(folder.resolve(SINGLE), LinkOption.NOFOLLOW_LINKS)) {
            return open(folder, Map.of());
        }
        if (Files.exists(folder.resolve(INDEX), LinkOption.NOFOLLOW_LINKS)) {
            return open(folder, weightMap(inside(folder, INDEX)));
        }
        if (Files.isDirectory(folder)) {
            Pickle.refuseAnyIn(folder);
        }
        throw new ModelException(folder, "expected a folder with " + SINGLE + " or " + INDEX);
    }

    /** Opens the shards of an index, or the single file if the index is empty. */
    private static SafetensorsFolder open(Path folder, Map<String, String> weightMap) {
        SafetensorsFolder opened = new SafetensorsFolder(folder);
        try {
            if (weightMap.isEmpty()) {
                opened.shard(SINGLE).tensors().values().forEach(stored -> opened.add(stored, opened.shard(SINGLE)));
            }
            weightMap.forEach((name, shard) -> opened.add(opened.shard(shard).tensor(name), opened.shard(shard)));
            opened.checkHomes();
            return opened;
        } catch (RuntimeException failure) {
            opened.close();
            throw failure;
        }
    }

    private static Map<String, String> weightMap(Path index) {
        try {
            if (Files.size(index) > LARGEST_INDEX) {
                throw new ModelException(index, "is larger than " + LARGEST_INDEX + " bytes");
            }
            JsonNode map = JSON.readTree(new String(Files.readAllBytes(index), StandardCharsets.UTF_8))
                    .path("weight_map");
            if (!map.isObject() || map.isEmpty()) {
                throw new ModelException(index, "expected an object weight_map from tensors to files");
            }
            Map<String, String> shards = new LinkedHashMap<>();
            for (Map.Entry<String, JsonNode> entry : map.properties()) {
                if (!entry.getValue().isString()
                        || !isPlainName(entry.getValue().stringValue())) {
                    throw new ModelException(
                            index,
                            "tensor " + entry.getKey()
                                    + ": expected the name of a .safetensors file in the same folder, got "
                                    + entry.getValue());
                }
                shards.put(entry.getKey(), entry.getValue().stringValue());
            }
            return shards;
        } catch (IOException failure) {
            throw new ModelException(index, "cannot be read: " + failure, failure);
        } catch (JacksonException failure) {
            throw new ModelException(index, "is not JSON: " + failure.getOriginalMessage(), failure);
        }
    }

    private static boolean isPlainName(String name) {
        return name.endsWith(".safetensors")
                && name.chars().noneMatch(c -> c == '/' || c == '\\' || c == ':' || c < ' ');
    }

    /** Returns a file of the folder. Throws if it is a link to a file outside the folder. */
    private static Path inside(Path folder, String name) {
        Path file = folder.resolve(name);
        try {
            if (!file.toRealPath().startsWith(folder.toRealPath())) {
                throw new ModelException(file, "links to a file outside its folder: " + file.toRealPath());
            }
            return file;
        } catch (IOException failure) {
            throw new ModelException(file, "cannot be read: " + failure, failure);
        }
    }

    private SafetensorsFile shard(String name) {
        SafetensorsFile shard = shards.get(name);
        if (shard == null) {
            shard = SafetensorsFile.open(inside(folder, name));
            shards.put(name, shard);
        }
        return shard;
    }

    private void add(SafetensorsFile.SafetensorsTensor stored, SafetensorsFile home) {
        tensors.put(stored.name(), stored);
        homes.put(stored.name(), home);
    }

    private void checkHomes() {
        for (SafetensorsFile shard : shards.values()) {
            for (String name : shard.tensors().keySet()) {
                SafetensorsFile home = homes.getOrDefault(name, shard);
                if (home != shard) {
                    throw new ModelException(
                            shard.path(),
                            "tensor " + name + ": is also in " + home.path().getFileName());
                }
            }
        }
    }

    @Override
    public Path path() {
        return folder;
    }

    @Override
    public Map<String, SafetensorsFile.SafetensorsTensor> tensors() {
        return Collections.unmodifiableMap(tensors);
    }

    @Override
    public FileRegion region(SafetensorsFile.SafetensorsTensor tensor) {
        return home(tensor).region(tensor);
    }

    @Override
    public void read(SafetensorsFile.SafetensorsTensor tensor, long offset, ByteBuffer into) {
        home(tensor).read(tensor, offset, into);
    }

    private SafetensorsFile home(SafetensorsFile.SafetensorsTensor tensor) {
        SafetensorsFile home = homes.get(tensor.name());
        if (home == null) {
            throw new ModelException(folder, "has no tensor " + tensor.name());
        }
        return home;
    }

    @Override
    public void close() {
        shards.values().forEach(SafetensorsFile::close);
    }

    /**
     * Writes tensors in order, into files of at most {@code shardBytes} of data each (a larger tensor has a file of its
     * own). The index is written last, so an incomplete folder has no index. Throws if the folder already has weights.
     */
    public static void write(Path folder, List<SafetensorsFile.SafetensorsData> entries, long shardBytes) {
        for (String taken : List.of(SINGLE, INDEX)) {
            if (Files.exists(folder.resolve(taken), LinkOption.NOFOLLOW_LINKS)) {
                throw new ModelException(folder.resolve(taken), "already exists");
            }
        }
        List<List<SafetensorsFile.SafetensorsData>> shards = split(entries, shardBytes);
        if (shards.size() == 1) {
            SafetensorsFile.write(folder.resolve(SINGLE), entries);
            return;
        }
        ObjectNode index = JSON.createObjectNode();
        ObjectNode metadata = index.putObject("metadata");
        ObjectNode weightMap = index.putObject("weight_map");
        long total = 0;
        for (int i = 0; i < shards.size(); i++) {
            String name = String.format("model-%05d-of-%05d.safetensors", i + 1, shards.size());
            SafetensorsFile.write(folder.resolve(name), shards.get(i));
            for (SafetensorsFile.SafetensorsData entry : shards.get(i)) {
                weightMap.put(entry.name(), name);
                total += entry.data().remaining();
            }
        }
        metadata.put("total_size", total);
        Path partial = folder.resolve(INDEX + ".partial");
        try {
            Files.writeString(partial, JSON.writerWithDefaultPrettyPrinter().writeValueAsString(index));
            Files.move(partial, folder.resolve(INDEX), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException failure) {
            throw new ModelException(folder.resolve(INDEX), "cannot be written: " + failure, failure);
        }
    }

    private static List<List<SafetensorsFile.SafetensorsData>> split(
            List<SafetensorsFile.SafetensorsData> entries, long shardBytes) {
        List<List<SafetensorsFile.SafetensorsData>> shards = new ArrayList<>(List.of(new ArrayList<>()));
        long filled = 0;
        for (SafetensorsFile.SafetensorsData entry : entries) {
            int size = entry.data().remaining();
            if (filled > 0 && filled + size > shardBytes) {
                shards.add(new ArrayList<>());
                filled = 0;
            }
            shards.getLast().add(entry);
            filled += size;
        }
        return shards;
    }
}
