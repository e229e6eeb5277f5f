package dev.starforge.data.dataset.chunk;

import dev.starforge.data.dataset.io.JsonWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.JsonNode;

/**
 * A function that a commit changed, or a changed part of a file outside functions.
 *
 * @param blob the file after the change
 * @param oldBlob the file before the change; zeros if it is new
 * @param lines the lines of {@code newCode}, from 1, inclusive; the old lines if the code was removed
 * @param changed the added or rewritten lines of the new file, from 0, the end exclusive
 * @param context declarations of other files that it uses
 */
public record CodeChunk(
        String id,
        String commit,
        long time,
        String path,
        String blob,
        String oldBlob,
        String language,
        ChunkCategory category,
        String symbol,
        String module,
        LineRange lines,
        List<LineRange> changed,
        String oldCode,
        String newCode,
        String patch,
        List<String> imports,
        List<ContextSignature> context) {

    enum ChunkCategory {
        NEW_FUNCTION,
        NEW_TYPE,
        NEW_TEST,
        MODIFIED_LOGIC,
        REFACTORING,
        BUG_FIX,
        OPTIMISATION,
        DOCUMENTATION,
        CONFIGURATION,
        IMPORTS,
        DELETION
    }

    public record LineRange(int from, int to) {}

    public static CodeChunk read(JsonNode json) {
        List<LineRange> changed = new ArrayList<>();
        json.path("changed").forEach(range -> changed.add(range(range)));
        List<String> imports = new ArrayList<>();
        json.path("imports").forEach(line -> imports.add(line.stringValue()));
        List<ContextSignature> context = new ArrayList<>();
        for (JsonNode signature : json.path("context")) {
            context.add(new ContextSignature(
                    text(signature, "path"), text(signature, "symbol"), text(signature, "signature")));
        }
        return new CodeChunk(
                text(json, "id"),
                text(json, "commit"),
                json.path("unix_time").longValue(),
                text(json, "path"),
                text(json, "blob"),
                text(json, "old_blob"),
                text(json, "language"),
                ChunkCategory.valueOf(text(json, "category").toUpperCase(Locale.ROOT)),
                text(json, "symbol"),
                text(json, "module"),
                range(json.path("lines")),
                changed,
                text(json, "old_code"),
                text(json, "new_code"),
                text(json, "patch"),
                imports,
                context);
    }

    private static String text(JsonNode json, String key) {
        return json.path(key).stringValue();
    }

    private static LineRange range(JsonNode json) {
        return new LineRange(json.path("from").intValue(), json.path("to").intValue());
    }

    /** The added lines that are part of {@code newCode}. */
    public List<String> added() {
        List<String> all = List.of(newCode.split("(?<=\n)"));
        List<String> added = new ArrayList<>();
        for (LineRange range : changed) {
            int from = Math.max(0, range.from - (lines.from - 1));
            int to = Math.min(all.size(), range.to - (lines.from - 1));
            if (from < to) {
                added.add(String.join("", all.subList(from, to)));
            }
        }
        return added;
    }

    /** A declaration in another file of the same tree. */
    public record ContextSignature(String path, String symbol, String text) {}

    void write(JsonWriter json) {
        json.begin()
                .put("id", id)
                .put("commit", commit)
                .put("unix_time", time)
                .put("path", path)
                .put("blob", blob);
        json.put("old_blob", oldBlob);
        json.put("language", language).put("category", category.name().toLowerCase(Locale.ROOT));
        json.put("symbol", symbol).put("module", module);
        json.object("lines").put("from", lines.from).put("to", lines.to).end();
        json.list("changed");
        for (LineRange range : changed) {
            json.begin().put("from", range.from).put("to", range.to).end();
        }
        json.endList()
                .put("old_code", oldCode)
                .put("new_code", newCode)
                .put("patch", patch)
                .put("imports", imports);
        json.list("context");
        for (ContextSignature signature : context) {
            json.begin().put("path", signature.path).put("symbol", signature.symbol);
            json.put("signature", signature.text).end();
        }
        json.endList();
    }
}
