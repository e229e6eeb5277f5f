package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.api.StartSecret;
import dev.starforge.serve.pool.worker.WorkerSpec;
import dev.starforge.text.file.PrivateFiles;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Persists the worker processes of this pool, so that the next pool can adopt them after a crash. One file per worker, replaced
 * atomically. Only their owner can read them: they have the secrets of the workers.
 */
final class WorkerJournal {
    private static final String SUFFIX = ".json";

    private final Path folder;

    WorkerJournal(Path folder) throws IOException {
        this.folder = PrivateFiles.folder(folder);
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                PrivateFiles.restrict(file);
            }
        }
    }

    /**
     * The record of a worker process.
     *
     * @param start secret of this start
     * @param pid 0 before the process starts
     * @param uri empty before the callback
     */
    record JournalEntry(
            String id, WorkerSpec spec, StartSecret start, long pid, String identity, String uri, int restarts) {}

    void write(JournalEntry entry) throws IOException {
        ObjectNode node = Jackson.object();
        node.put("id", entry.id()).put("start", entry.start().text()).put("pid", entry.pid());
        node.put("identity", entry.identity()).put("uri", entry.uri()).put("restarts", entry.restarts());
        WorkerSpec spec = entry.spec();
        node.put("model", spec.model()).put("path", spec.path().toString()).put("device", spec.device());
        node.put("reserved", spec.reserved()).put("kv_bytes", spec.kvBytes());
        ObjectNode adapters = node.putObject("adapters");
        spec.adapters().forEach((name, path) -> adapters.put(name, path.toString()));
        Path file = file(entry.id());
        Path fresh = file.resolveSibling(file.getFileName() + ".new");
        try (FileChannel out = FileChannel.open(
                PrivateFiles.file(fresh), StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
            ByteBuffer bytes = ByteBuffer.wrap(Jackson.indented(node).getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) {
                out.write(bytes);
            }
            out.force(true);
        }
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    void remove(String id) throws IOException {
        Files.deleteIfExists(file(id));
    }

    private Path file(String id) {
        return folder.resolve(id + SUFFIX);
    }

    /** Reads all entries. Fails on an unreadable entry, since a worker may be running. */
    List<JournalEntry> read() throws IOException {
        List<JournalEntry> entries = new ArrayList<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.filter(each -> each.toString().endsWith(SUFFIX))
                    .sorted()
                    .toList()) {
                entries.add(read(file));
            }
        }
        return entries;
    }

    private static JournalEntry read(Path file) throws IOException {
        try {
            JsonNode node = Jackson.JSON.readTree(Files.readAllBytes(file));
            Map<String, Path> adapters = new LinkedHashMap<>();
            node.path("adapters")
                    .properties()
                    .forEach(each ->
                            adapters.put(each.getKey(), Path.of(each.getValue().stringValue())));
            WorkerSpec spec = new WorkerSpec(
                    node.path("model").stringValue(),
                    Path.of(node.path("path").stringValue()),
                    node.path("device").stringValue(),
                    adapters,
                    node.path("reserved").longValue(),
                    node.path("kv_bytes").longValue());
            return new JournalEntry(
                    node.path("id").stringValue(),
                    spec,
                    StartSecret.of(node.path("start").stringValue()),
                    node.path("pid").longValue(),
                    node.path("identity").stringValue(),
                    node.path("uri").stringValue(),
                    node.path("restarts").intValue());
        } catch (JacksonException | IllegalArgumentException e) {
            throw new IOException(
                    file + ": is not a journal entry: " + e.getMessage()
                            + "; stop its worker if it runs, and delete the file",
                    e);
        }
    }
}
