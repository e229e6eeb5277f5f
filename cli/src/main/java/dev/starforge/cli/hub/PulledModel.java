package dev.starforge.cli.hub;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** Manifest of a downloaded model: its origin, files and hashes. */
public record PulledModel(ModelId id, String endpoint, String commit, List<HubFile> files) {
    /** The manifest's name in the folder. */
    public static final String FILE = ".pulled.json";

    private static final JsonMapper JSON =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

    public PulledModel {
        files = List.copyOf(files);
    }

    public long bytes() {
        return files.stream().mapToLong(HubFile::size).sum();
    }

    void write(Path folder) throws IOException {
        ObjectNode json = JSON.createObjectNode();
        json.put("model", id.toString()).put("endpoint", endpoint).put("commit", commit);
        for (HubFile file : files) {
            json.withArray("files")
                    .addObject()
                    .put("name", file.name())
                    .put("size", file.size())
                    .put(file.hash().git() ? "blob" : "sha256", file.hash().hex());
        }
        Path partial = folder.resolve(FILE + ".partial");
        Files.writeString(partial, JSON.writeValueAsString(json) + "\n");
        Files.move(partial, folder.resolve(FILE), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Reads the manifest of a folder; empty if the download is missing or incomplete. */
    public static Optional<PulledModel> read(Path folder) {
        Path file = folder.resolve(FILE);
        if (!Files.isRegularFile(file)) {
            return Optional.empty();
        }
        try {
            JsonNode json = JSON.readTree(Files.readString(file));
            List<HubFile> files = new ArrayList<>();
            for (JsonNode each : json.path("files")) {
                boolean git = each.has("blob");
                files.add(new HubFile(
                        each.path("name").stringValue(""),
                        each.path("size").longValue(-1),
                        new HubFile.Hash(git, each.path(git ? "blob" : "sha256").stringValue(""))));
            }
            ModelId id = ModelId.parse(json.path("model").stringValue(""))
                    .orElseThrow(() -> new HubException(file + ": no model name; pull the model again"));
            return Optional.of(new PulledModel(
                    id,
                    json.path("endpoint").stringValue(""),
                    json.path("commit").stringValue(""),
                    files));
        } catch (IOException | JacksonException failure) {
            throw new HubException(
                    file + ": cannot be read (" + failure.getMessage() + "); pull the model again", failure);
        }
    }

    /** Returns true if the folder has all files with the same content. */
    public boolean isIn(Path folder) throws IOException {
        for (HubFile file : files) {
            Path there = folder.resolve(file.name());
            if (!Files.isRegularFile(there) || !file.matches(there)) {
                return false;
            }
        }
        return true;
    }
}
