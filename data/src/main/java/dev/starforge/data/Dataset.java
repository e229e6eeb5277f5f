package dev.starforge.data;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.file.Hashes;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A dataset written by the {@code dataset} command: {@code manifest.json} and its shards. A dataset grows by
 * generations, each with three splits. This class presents one list of documents per split, oldest generation first,
 * without the documents that a later generation has removed (tombstones).
 */
public final class Dataset implements AutoCloseable {
    public static final String MANIFEST = "manifest.json";

    private static final String FORMAT = "starforge-dataset";
    private static final int VERSION = 1;

    private final Path folder;
    private final JsonNode manifest;
    private final Map<Split, Documents> splits = new EnumMap<>(Split.class);

    private Dataset(Path folder, JsonNode manifest) {
        this.folder = folder;
        this.manifest = manifest;
        Set<String> tombstones = new HashSet<>();
        for (JsonNode generation : manifest.path("generations")) {
            for (JsonNode id : generation.path("tombstones")) {
                tombstones.add(id.asString());
            }
        }
        try {
            for (Split split : Split.values()) {
                List<TokenShard> shards = new ArrayList<>();
                Documents documents = new Documents(shards);
                splits.put(split, documents);
                for (JsonNode generation : manifest.path("generations")) {
                    shards.add(open(generation, split));
                }
                documents.index(tombstones);
            }
        } catch (RuntimeException failure) {
            close();
            throw failure;
        }
    }

    /** Opens a dataset and checks every shard and its hash in the manifest. */
    public static Dataset open(Path folder) {
        Path file = folder.resolve(MANIFEST);
        if (!Files.isRegularFile(file)) {
            throw new DatasetException(
                    folder,
                    Files.isRegularFile(folder)
                            ? "is a file, expected a folder written by `starforge dataset` (pass a JSON Lines file"
                                    + " as data.train)"
                            : "is not a dataset: it has no " + MANIFEST
                                    + "; create one with `starforge dataset --repo PATH --out DIR`");
        }
        JsonNode manifest;
        try {
            manifest = new JsonMapper().readTree(file);
        } catch (JacksonException failure) {
            throw new DatasetException(file, "is not readable JSON: " + failure.getOriginalMessage(), failure);
        }
        if (!manifest.path("format").asString("").equals(FORMAT)
                || manifest.path("version").asInt(0) != VERSION) {
            throw new DatasetException(
                    file,
                    "expected format " + FORMAT + " version " + VERSION + ", got " + manifest.path("format")
                            + " version " + manifest.path("version"));
        }
        return new Dataset(folder, manifest);
    }

    private TokenShard open(JsonNode generation, Split split) {
        Path file = folder.resolve(generation.path("directory").asString(".")).resolve(split.shard());
        TokenShard shard = TokenShard.open(file);
        String expected =
                generation.path("files").path(split.shard()).path("sha256").asString("");
        String actual = expected.isEmpty() ? "" : Hashes.sha256(file);
        if (!actual.equals(expected)) {
            shard.close();
            throw new DatasetException(
                    file, "does not match the manifest: expected SHA-256 " + expected + ", got " + actual);
        }
        int documents =
                generation.path("splits").path(split.label()).path("documents").asInt(-1);
        if (shard.count() != documents || shard.vocabularySize() != vocabularySize()) {
            shard.close();
            throw new DatasetException(
                    shard.file(),
                    "has " + shard.count() + " documents of a vocabulary of " + shard.vocabularySize()
                            + ", but the manifest says " + documents + " of " + vocabularySize());
        }
        return shard;
    }

    public Path folder() {
        return folder;
    }

    /** SHA-256 of the tokenizer's file, in hex; a trainer refuses a tokenizer with another one. */
    public String tokenizerHash() {
        return manifest.path("tokenizer").path("sha256").asString("");
    }

    /** Returns the vocabulary size; all ids are below it. */
    public int vocabularySize() {
        return manifest.path("tokenizer").path("vocabulary").asInt(0);
    }

    /** Returns the HEAD commit of the newest generation. */
    public String head() {
        return manifest.path("repository").path("head").asString("");
    }

    /** Returns the number of files by language, over all generations. */
    public Map<String, Long> languages() {
        Map<String, Long> files = new TreeMap<>();
        for (JsonNode generation : manifest.path("generations")) {
            generation
                    .path("languages")
                    .properties()
                    .forEach(entry ->
                            files.merge(entry.getKey(), entry.getValue().asLong(0), Long::sum));
        }
        return files;
    }

    /** Returns the number of commits, over all generations. */
    public long commits() {
        long commits = 0;
        for (JsonNode generation : manifest.path("generations")) {
            commits += generation.path("commits").asLong(0);
        }
        return commits;
    }

    /**
     * Describes which files and chunks of the newest generation are left and why the others are not, for messages about
     * missing documents.
     */
    public String describeDrops() {
        JsonNode newest =
                manifest.path("generations").path(manifest.path("generations").size() - 1);
        JsonNode counts = newest.path("counts");
        List<String> reasons = new ArrayList<>();
        newest.path("dropped").properties().stream()
                .sorted(Comparator.comparing(entry -> -entry.getValue().asLong(0)))
                .forEach(entry -> reasons.add(String.format(
                        Locale.ROOT, "%s %,d", entry.getKey(), entry.getValue().asLong(0))));
        return String.format(
                Locale.ROOT,
                "%,d of %,d files and %,d of %,d chunks of %,d commits are kept; dropped: %s",
                counts.path("files_kept").asLong(0),
                counts.path("files").asLong(0),
                counts.path("chunks_kept").asLong(0),
                counts.path("chunks").asLong(0),
                newest.path("commits").asLong(0),
                reasons.isEmpty() ? "none" : String.join(", ", reasons));
    }

    /** Returns the documents of a split, over all generations. Closing the dataset closes them. */
    public TokenDocuments documents(Split split) {
        return split.in(splits);
    }

    /** Returns the origin of a document of a split, for weighting by age or directory. */
    public SampleOrigin origin(Split split, int document) {
        return split.in(splits).origin(document);
    }

    @Override
    public void close() {
        splits.values().forEach(Documents::close);
    }

    /** The shards of all generations as one list. */
    private static final class Documents implements TokenDocuments {
        private final List<TokenShard> shards;
        private int[] shardOf = new int[0];
        private int[] placeIn = new int[0];
        private long tokens;

        Documents(List<TokenShard> shards) {
            this.shards = shards;
        }

        void index(Set<String> tombstones) {
            TokenIdList shard = new TokenIdList();
            TokenIdList place = new TokenIdList();
            for (int s = 0; s < shards.size(); s++) {
                for (int d = 0; d < shards.get(s).count(); d++) {
                    if (!tombstones.contains(shards.get(s).id(d))) {
                        shard.add(s);
                        place.add(d);
                        tokens += shards.get(s).length(d);
                    }
                }
            }
            shardOf = shard.toArray();
            placeIn = place.toArray();
        }

        @Override
        public int count() {
            return shardOf.length;
        }

        @Override
        public int length(int document) {
            return shards.get(shardOf[document]).length(placeIn[document]);
        }

        @Override
        public TokenDocument read(int document) {
            return shards.get(shardOf[document]).read(placeIn[document]);
        }

        SampleOrigin origin(int document) {
            return shards.get(shardOf[document]).origin(placeIn[document]);
        }

        @Override
        public long tokens() {
            return tokens;
        }

        @Override
        public void close() {
            shards.forEach(TokenShard::close);
            shards.clear();
        }
    }
}
