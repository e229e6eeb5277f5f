package dev.starforge.data.dataset.report;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.data.TokenShard;
import dev.starforge.data.dataset.chunk.ChunkTable;
import dev.starforge.data.dataset.chunk.CodeChunk;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.io.CompressedLines;
import dev.starforge.data.dataset.sample.SampleWorker;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.data.dataset.split.SplitBoundaries;
import dev.starforge.text.config.Key;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * {@code manifest.json}: the inputs, settings, counts and files of a dataset, every file with its hash. It has no clock times
 * and no absolute paths, so it is identical for the same repository, settings and seed.
 */
public final class Manifest {
    public static final String TOKENIZER = "tokenizer.json";

    private final DatasetConfig config;
    private final ObjectNode root;

    private Manifest(DatasetConfig config, ObjectNode root) {
        this.config = config;
        this.root = root;
    }

    /** The manifest of an existing dataset, which must have been made with the same settings. */
    public static Optional<Manifest> existing(DatasetConfig config, TokenizerChoice choice) {
        Path file = config.out().resolve(Dataset.MANIFEST);
        if (!Files.exists(file)) {
            return Optional.empty();
        }
        try {
            Manifest manifest = new Manifest(config, (ObjectNode) Jackson.JSON.readTree(file));
            manifest.requireSame(file, choice);
            return Optional.of(manifest);
        } catch (ClassCastException failure) {
            throw new DatasetException(file, "is not a manifest: it has other kinds of values", failure);
        } catch (JacksonException failure) {
            throw new DatasetException(file, "is not a manifest: " + failure.getOriginalMessage(), failure);
        }
    }

    /** The manifest of a new dataset. */
    public static Manifest empty(DatasetConfig config, TokenizerChoice choice) {
        ObjectNode root = Jackson.object();
        root.put("format", "starforge-dataset").put("version", 1);
        root.putObject("repository").put("name", config.name());
        root.set("config", settings(config));
        ObjectNode tokenizer = root.putObject("tokenizer");
        if (choice instanceof TokenizerChoice.TokenizerToTrain trained) {
            tokenizer.put("trained", trained.vocabularySize());
        }
        root.putArray("generations");
        root.putObject("blobs");
        return new Manifest(config, root);
    }

    /**
     * Throws if the output folder contains files that are not part of a dataset. Files that an interrupted first generation
     * moved there are not foreign.
     */
    public static void refuseForeign(Path out, Path work) {
        if (!Files.isDirectory(out) || Files.exists(out.resolve(Dataset.MANIFEST))) {
            return;
        }
        Set<String> interrupted = interrupted(work);
        try (Stream<Path> files = Files.list(out)) {
            Optional<Path> foreign = files.filter(
                            file -> !file.getFileName().toString().startsWith(".")
                                    && !interrupted.contains(file.getFileName().toString()))
                    .sorted()
                    .findFirst();
            if (foreign.isPresent()) {
                throw new DatasetException(
                        out,
                        "is not empty and not a dataset: it has "
                                + foreign.get().getFileName());
            }
        } catch (IOException failure) {
            throw new DatasetException(out, "cannot be read: " + failure.getMessage(), failure);
        }
    }

    /** Removes files that an interrupted first generation has already moved into place. */
    public static void discardInterrupted(Path out, Path work) throws IOException {
        if (!Files.exists(out.resolve(Dataset.MANIFEST))) {
            for (String name : interrupted(work)) {
                Files.deleteIfExists(out.resolve(name));
            }
        }
    }

    /** The files named by a manifest that is still in the work folder. */
    private static Set<String> interrupted(Path work) {
        Path file = work.resolve(Dataset.MANIFEST);
        Set<String> names = new TreeSet<>();
        if (Files.isRegularFile(file)) {
            try {
                JsonNode generation =
                        Jackson.JSON.readTree(file).path("generations").path(0);
                generation.path("files").properties().forEach(each -> names.add(each.getKey()));
            } catch (JacksonException unreadable) {
                throw new DatasetException(file, "is not a manifest: " + unreadable.getMessage(), unreadable);
            }
        }
        names.removeIf(name -> name.contains("/") || name.contains("\\"));
        return names;
    }

    private void requireSame(Path file, TokenizerChoice choice) {
        ObjectNode now = settings(config);
        for (Map.Entry<String, JsonNode> setting : now.properties()) {
            JsonNode before = root.path("config").path(setting.getKey());
            if (!before.equals(Jackson.JSON.readTree(setting.getValue().toString()))) {
                throw new DatasetException(
                        file,
                        "was built with " + setting.getKey() + " = " + before + ", not " + setting.getValue()
                                + "; use the same settings, or another folder");
            }
        }
        JsonNode tokenizer = root.path("tokenizer");
        if (choice instanceof TokenizerChoice.ExistingTokenizer given
                && !Hashes.sha256(given.file()).equals(tokenizer.path("sha256").asString(""))) {
            throw new DatasetException(file, "was built with another tokenizer than " + given.file());
        }
        if (choice instanceof TokenizerChoice.TokenizerToTrain trained) {
            if (!Files.exists(config.out().resolve(TOKENIZER))) {
                throw new DatasetException(
                        file, "was built with a tokenizer that was given; give it again, as --tokenizer");
            }
            int size = tokenizer.path("trained").asInt(trained.vocabularySize());
            if (size != trained.vocabularySize()) {
                throw new DatasetException(
                        file,
                        "was built with --tokenizer train:" + size + ", not train:" + trained.vocabularySize()
                                + "; use the same, or another folder");
            }
        }
    }

    /** The settings that decide the content. */
    public static ObjectNode settings(DatasetConfig config) {
        ObjectNode node = Jackson.object();
        for (Key<?> key : DatasetKeys.deciding()) {
            String name = DatasetKeys.shortName(key);
            switch (config.get(key)) {
                case String text -> node.put(name, text);
                case Boolean flag -> node.put(name, flag);
                case Integer number -> node.put(name, number);
                case Long number -> node.put(name, number);
                case Double number -> node.put(name, number);
                case OptionalInt number -> node.put(name, number.orElseThrow());
                case Enum<?> word -> node.put(name, word.name().toLowerCase(Locale.ROOT));
                case List<?> list -> {
                    ArrayNode array = node.putArray(name);
                    list.forEach(item -> array.add(String.valueOf(item)));
                }
                case Object other ->
                    throw new IllegalStateException("setting " + name + ": has no form here: " + other);
            }
        }
        return node;
    }

    public int generations() {
        return root.path("generations").size();
    }

    /** The newest commit of each generation. */
    public List<String> heads() {
        List<String> heads = new ArrayList<>();
        root.path("generations")
                .forEach(generation -> heads.add(generation.path("head").asString()));
        return heads;
    }

    public String family() {
        return root.path("tokenizer").path("family").asString("");
    }

    private Path folder(JsonNode generation) {
        return config.out().resolve(generation.path("directory").asString("."));
    }

    /** Visits the training chunks of the older generations. */
    public void eachTrainingChunk(Consumer<CodeChunk> each) throws IOException {
        Set<String> tombstones = new HashSet<>();
        root.path("generations")
                .forEach(generation -> generation.path("tombstones").forEach(id -> tombstones.add(id.stringValue())));
        for (JsonNode generation : root.path("generations")) {
            try (BufferedReader lines = CompressedLines.open(folder(generation).resolve(ChunkTable.FILE))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    JsonNode json = Jackson.JSON.readTree(line);
                    boolean trained = json.path("split").asString("").equals(Split.TRAIN.label());
                    if (trained
                            && !tombstones.contains(
                                    SampleWorker.CHUNK + json.path("id").stringValue())) {
                        each.accept(CodeChunk.read(json));
                    }
                }
            }
        }
    }

    /** The held-out text of the older generations. */
    public LeakDetector heldOut(Optional<Tokenizer> tokenizer) {
        LeakDetector heldOut = new LeakDetector(config.get(DatasetKeys.WINDOW_WORDS), Integer.MAX_VALUE);
        for (JsonNode generation : root.path("generations")) {
            for (Split split : List.of(Split.VALIDATION, Split.TEST)) {
                try (TokenShard shard = TokenShard.open(folder(generation).resolve(split.shard()))) {
                    heldOut.addHeldOut(shard, tokenizer.orElseThrow());
                }
            }
        }
        return heldOut;
    }

    /** Training documents of older generations that share a window with held-out text of this one. */
    public List<String> leaking(LeakDetector heldOut, Tokenizer tokenizer) {
        List<String> ids = new ArrayList<>();
        for (JsonNode generation : root.path("generations")) {
            try (TokenShard shard = TokenShard.open(folder(generation).resolve(Split.TRAIN.shard()))) {
                heldOut.leakingDocuments(shard, tokenizer, config.threads(), () -> {})
                        .forEach(document -> ids.add(shard.id(document)));
            }
        }
        return ids;
    }

    /**
     * A finished generation.
     *
     * @param head the newest commit
     * @param tombstones documents of older generations that are excluded from now on
     * @param documentsByBlob ids of the documents that show parts of a blob
     */
    public record Generation(
            String head,
            DatasetReport report,
            SplitBoundaries boundaries,
            List<String> tombstones,
            Map<String, List<String>> documentsByBlob) {}

    /**
     * Moves the finished files of the work folder into the dataset, the manifest last. The manifest is complete before the
     * first file moves, so that an interrupted run's files can be recognized.
     */
    public void publish(Path work, Generation generation, Path tokenizerFile, Tokenizer tokenizer) throws IOException {
        int number = generations();
        Path folder = number == 0 ? config.out() : config.out().resolve("generation-" + number);
        Files.createDirectories(folder);
        ObjectNode node = ((ArrayNode) root.path("generations")).addObject();
        node.put("directory", number == 0 ? "." : "generation-" + number);
        describe(generation, node);
        describe(generation.report, generation.head, tokenizerFile, tokenizer);
        ObjectNode blobs = (ObjectNode) root.path("blobs");
        new TreeMap<>(generation.documentsByBlob).forEach((blob, ids) -> {
            ArrayNode known = blobs.path(blob).isArray() ? (ArrayNode) blobs.path(blob) : blobs.putArray(blob);
            ids.forEach(known::add);
        });
        // the blobs come last, after the part that people read
        root.remove("blobs");
        List<Path> finished = finished(work, node.putObject("files"));
        root.set("blobs", blobs);
        Path unfinished = work.resolve("manifest.part");
        Files.writeString(unfinished, Jackson.indented(root) + "\n");
        sync(unfinished);
        Path fresh = work.resolve(Dataset.MANIFEST);
        Files.move(unfinished, fresh, StandardCopyOption.ATOMIC_MOVE);
        for (Path file : finished) {
            String name = file.getFileName().toString();
            Path target = name.equals(TOKENIZER) ? config.out() : folder;
            Files.move(file, target.resolve(name), StandardCopyOption.REPLACE_EXISTING);
        }
        Files.move(fresh, config.out().resolve(Dataset.MANIFEST), StandardCopyOption.ATOMIC_MOVE);
    }

    private static void describe(Generation generation, ObjectNode out) {
        DatasetReport report = generation.report;
        out.put("head", generation.head).put("commits", report.commits());
        out.put("train_until", time(generation.boundaries.train()))
                .put("validation_until", time(generation.boundaries.validation()));
        ObjectNode splits = out.putObject("splits");
        report.splits()
                .forEach((split, count) -> splits.putObject(split.label())
                        .put("documents", count.documents())
                        .put("tokens", count.tokens())
                        .put("loss_tokens", count.lossTokens())
                        .put("commits", count.commits()));
        out.putObject("counts")
                .put("files", report.files())
                .put("files_kept", report.filesKept())
                .put("chunks", report.chunks())
                .put("chunks_kept", report.chunksKept());
        ObjectNode dropped = out.putObject("dropped");
        report.dropped().forEach(dropped::put);
        ObjectNode languages = out.putObject("languages");
        report.languages().forEach(languages::put);
        redactions(report.redacted(), out.putObject("redactions"));
        out.putObject("leakage")
                .put("shared_windows", 0)
                .put("dropped", report.leakingDropped())
                .put("boilerplate_windows", report.boilerplateWindows())
                .put("tombstones", generation.tombstones.size());
        generation.tombstones.forEach(out.putArray("tombstones")::add);
    }

    /** Updates the fields that hold for the whole dataset. */
    private void describe(DatasetReport report, String head, Path tokenizerFile, Tokenizer tokenizer) {
        ((ObjectNode) root.path("repository")).put("head", head);
        ObjectNode licenses = root.putObject("licenses");
        report.licences().forEach((path, license) -> licenses.put(path.isEmpty() ? "." : path, license));
        ((ObjectNode) root.path("tokenizer"))
                .put("sha256", Hashes.sha256(tokenizerFile))
                .put("vocabulary", tokenizer.size())
                .put("family", report.family());
    }

    /** The files of the work folder that belong to the dataset; describes each by size and hash. */
    private static List<Path> finished(Path work, ObjectNode out) throws IOException {
        List<Path> finished = new ArrayList<>();
        try (Stream<Path> built = Files.list(work)) {
            for (Path file : built.sorted().toList()) {
                String name = file.getFileName().toString();
                if (name.endsWith(".part") || Files.isDirectory(file)) {
                    continue;
                }
                sync(file);
                out.putObject(name).put("bytes", Files.size(file)).put("sha256", Hashes.sha256(file));
                finished.add(file);
            }
        }
        return finished;
    }

    /** Counts by rule, and masked examples. */
    private static void redactions(DatasetReport.RedactionCounts redacted, ObjectNode out) {
        out.put("keys", redacted.keys()).put("passwords", redacted.passwords()).put("emails", redacted.emails());
        redacted.rules().forEach(out.putObject("rules")::put);
        ArrayNode examples = out.putArray("examples");
        for (DatasetReport.MaskedExample example : redacted.examples()) {
            examples.addObject()
                    .put("rule", example.rule())
                    .put("masked", example.masked())
                    .put("path", example.path())
                    .put("line", example.line());
        }
    }

    private static String time(long seconds) {
        return seconds == Long.MAX_VALUE ? "" : Instant.ofEpochSecond(seconds).toString();
    }

    private static void sync(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.force(true);
        }
    }
}
