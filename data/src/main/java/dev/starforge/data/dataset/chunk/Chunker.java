package dev.starforge.data.dataset.chunk;

import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.dataset.parse.Outline;
import dev.starforge.data.git.ByteBuilder;
import dev.starforge.data.git.FilePatch;
import dev.starforge.data.git.LineIndex;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Cuts the change of one file into chunks. A changed line belongs to the innermost function around it, otherwise to a run of
 * changed lines in a type, the imports or the file. A changed function is one chunk; of a very long one, the chunk has the
 * changed lines and some around them.
 */
public final class Chunker {
    private static final int MAX_FUNCTION_LINES = 200;
    private static final int AROUND = 10;
    private static final int CONTEXT = 3;
    private static final Pattern COMMENT = Pattern.compile("\\s*(?://|#|/?\\*|--|\"\"\"|<!--|;).*|\\s*");
    private static final Pattern FIX =
            Pattern.compile("\\b(?:fix(?:e[sd]|ing)?|bugs?|defects?|crash(?:e[sd])?|regression|broken)\\b");
    private static final Pattern FASTER =
            Pattern.compile("\\b(?:perf(?:ormance)?|optimi[sz]\\w*|speed\\w*|faster|cheaper|cache[sd]?|caching)\\b");
    private static final Pattern REFACTOR = Pattern.compile(
            "\\b(?:refactor\\w*|renam\\w*|clean\\w*|simplif\\w*|mov(?:e[sd]?|ing)|extract\\w*|tidy\\w*)\\b");
    private static final Pattern TEST = Pattern.compile(
            "(?:^|.*/)(?:tests?|specs?|__tests__)/.*|.*(?:test|tests|spec|_test)\\.\\w+|(?:^|.*/)test_[^/]*");

    private final LineIndex oldLines;
    private final LineIndex newLines;
    private final Outline oldOutline;
    private final Outline newOutline;
    private final List<FilePatch.LineEdit> edits;

    /** The edits of a chunk and the symbol that contains them. */
    private static final class OwnedEdits {
        private final int owner;
        private final List<FilePatch.LineEdit> edits = new ArrayList<>();

        OwnedEdits(int owner) {
            this.owner = owner;
        }

        /** Merges adjacent edits: each import line is a symbol, but a run of imports is one change. */
        void add(FilePatch.LineEdit edit) {
            FilePatch.LineEdit last = edits.isEmpty() ? null : edits.getLast();
            if (last != null && last.toNew() == edit.fromNew() && last.toOld() == edit.fromOld()) {
                edits.set(
                        edits.size() - 1,
                        new FilePatch.LineEdit(last.fromOld(), edit.toOld(), last.fromNew(), edit.toNew()));
            } else {
                edits.add(edit);
            }
        }

        /** The added lines. */
        List<CodeChunk.LineRange> changed() {
            return edits.stream()
                    .filter(edit -> edit.fromNew() < edit.toNew())
                    .map(edit -> new CodeChunk.LineRange(edit.fromNew(), edit.toNew()))
                    .toList();
        }
    }

    /** A chunk without the fields that the caller adds. */
    record ChunkContent(
            CodeChunk.ChunkCategory category,
            String symbol,
            CodeChunk.LineRange lines,
            List<CodeChunk.LineRange> changed,
            String oldCode,
            String newCode,
            String patch) {}

    Chunker(
            byte[] oldContent,
            byte[] newContent,
            Outline oldOutline,
            Outline newOutline,
            List<FilePatch.LineEdit> edits) {
        oldLines = LineIndex.of(oldContent);
        newLines = LineIndex.of(newContent);
        this.oldOutline = oldOutline;
        this.newOutline = newOutline;
        this.edits = edits;
    }

    List<ChunkContent> parts(String path, String subject, Language language) {
        int[] owners = owners(newLines, newOutline);
        List<OwnedEdits> groups = new ArrayList<>();
        Map<Integer, OwnedEdits> functions = new HashMap<>();
        for (FilePatch.LineEdit edit : edits) {
            boolean first = true;
            for (int line = edit.fromNew(); line < edit.toNew() || first && edit.fromNew() == edit.toNew(); ) {
                int owner = owners.length == 0 ? -1 : owners[Math.min(line, owners.length - 1)];
                int end = line;
                while (end < edit.toNew() && owners[end] == owner) {
                    end++;
                }
                boolean function = owner >= 0 && newOutline.symbols().get(owner).kind() == Outline.SymbolKind.FUNCTION;
                OwnedEdits group = function ? functions.get(owner) : joinable(groups, owner, line);
                if (group == null) {
                    group = new OwnedEdits(owner);
                    groups.add(group);
                    if (function) {
                        functions.put(owner, group);
                    }
                }
                group.add(new FilePatch.LineEdit(first ? edit.fromOld() : edit.toOld(), edit.toOld(), line, end));
                first = false;
                line = Math.max(end, line + 1);
            }
        }
        Map<String, Outline.Symbol> before = new LinkedHashMap<>();
        for (Outline.Symbol symbol : oldOutline.symbols()) {
            before.put(oldOutline.qualifiedName(symbol), symbol);
        }
        boolean test = TEST.matcher(path.toLowerCase(Locale.ROOT)).matches();
        return groups.stream()
                .filter(group -> !blank(group))
                .map(group -> part(group, before, subject.toLowerCase(Locale.ROOT), language, test))
                .toList();
    }

    /** For each line the index of its innermost symbol, or -1. */
    private static int[] owners(LineIndex lines, Outline outline) {
        int[] owners = new int[lines.count()];
        Arrays.fill(owners, -1);
        for (int s = 0; s < outline.symbols().size(); s++) {
            Outline.Symbol symbol = outline.symbols().get(s);
            if (symbol.kind() == Outline.SymbolKind.BLOCK) {
                continue;
            }
            // inner symbols come after outer ones and overwrite their lines
            for (int line = lineOf(lines, symbol.from());
                    line < lines.count() && lines.start(line) < symbol.to();
                    line++) {
                owners[line] = s;
            }
        }
        return owners;
    }

    private static int lineOf(LineIndex lines, int place) {
        int low = 0;
        int high = lines.count();
        while (low + 1 < high) {
            int middle = low + high >>> 1;
            if (lines.start(middle) <= place) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /** The last group of edits, if it has the same owner and is near. */
    private @Nullable OwnedEdits joinable(List<OwnedEdits> groups, int owner, int line) {
        if (groups.isEmpty()) {
            return null;
        }
        OwnedEdits last = groups.getLast();
        boolean imports = kind(owner) == Outline.SymbolKind.IMPORT && kind(last.owner) == Outline.SymbolKind.IMPORT;
        boolean near = line - last.edits.getLast().toNew() <= CONTEXT;
        return imports && near || last.owner == owner && kind(owner) != Outline.SymbolKind.FUNCTION && near
                ? last
                : null;
    }

    private Outline.SymbolKind kind(int owner) {
        return owner < 0
                ? Outline.SymbolKind.BLOCK
                : newOutline.symbols().get(owner).kind();
    }

    private boolean blank(OwnedEdits group) {
        return group.edits.stream()
                .allMatch(edit -> text(oldLines, edit.fromOld(), edit.toOld()).isBlank()
                        && text(newLines, edit.fromNew(), edit.toNew()).isBlank());
    }

    private ChunkContent part(
            OwnedEdits group, Map<String, Outline.Symbol> before, String subject, Language language, boolean test) {
        FilePatch.LineEdit first = group.edits.getFirst();
        FilePatch.LineEdit last = group.edits.getLast();
        int from = first.fromNew();
        int to = last.toNew();
        String oldCode;
        String name = group.owner < 0
                ? ""
                : newOutline.qualifiedName(newOutline.symbols().get(group.owner));
        Outline.Symbol counterpart = name.isEmpty() ? null : before.get(name);
        boolean function = kind(group.owner) == Outline.SymbolKind.FUNCTION;
        if (function) {
            Outline.Symbol symbol = newOutline.symbols().get(group.owner);
            int begin = lineOf(newLines, symbol.from());
            int end = lineOf(newLines, Math.max(symbol.from(), symbol.to() - 1)) + 1;
            boolean whole = end - begin <= MAX_FUNCTION_LINES;
            from = whole ? begin : Math.max(begin, from - AROUND);
            to = whole ? end : Math.min(end, to + AROUND);
            oldCode = counterpart == null
                    ? ""
                    : whole
                            ? text(
                                    oldLines,
                                    lineOf(oldLines, counterpart.from()),
                                    lineOf(oldLines, Math.max(counterpart.from(), counterpart.to() - 1)) + 1)
                            : text(
                                    oldLines,
                                    Math.max(0, first.fromOld() - AROUND),
                                    Math.min(oldLines.count(), last.toOld() + AROUND));
        } else {
            oldCode = text(oldLines, first.fromOld(), last.toOld());
        }
        List<CodeChunk.LineRange> changed = group.changed();
        boolean removed = changed.isEmpty() && !function;
        CodeChunk.ChunkCategory category = category(group, counterpart != null, subject, language, test, removed);
        String newCode = removed ? "" : text(newLines, from, to);
        CodeChunk.LineRange lines = removed
                ? new CodeChunk.LineRange(first.fromOld() + 1, last.toOld())
                : new CodeChunk.LineRange(from + 1, to);
        String symbol = removed && name.isEmpty() ? removedName(first) : name;
        return new ChunkContent(category, symbol, lines, changed, oldCode, newCode, patch(group.edits));
    }

    private String removedName(FilePatch.LineEdit edit) {
        return oldOutline.symbols().stream()
                .filter(symbol ->
                        symbol.kind() == Outline.SymbolKind.FUNCTION || symbol.kind() == Outline.SymbolKind.TYPE)
                .filter(symbol -> {
                    int line = lineOf(oldLines, symbol.from());
                    return line >= edit.fromOld() && line < edit.toOld();
                })
                .map(oldOutline::qualifiedName)
                .findFirst()
                .orElse("");
    }

    private CodeChunk.ChunkCategory category(
            OwnedEdits group, boolean existed, String subject, Language language, boolean test, boolean removed) {
        if (language.kind() == Language.ContentType.DOCUMENTATION || comments(group)) {
            return CodeChunk.ChunkCategory.DOCUMENTATION;
        }
        if (language.kind() != Language.ContentType.CODE) {
            return CodeChunk.ChunkCategory.CONFIGURATION;
        }
        if (removed) {
            return CodeChunk.ChunkCategory.DELETION;
        }
        Outline.SymbolKind kind = kind(group.owner);
        if (kind == Outline.SymbolKind.IMPORT) {
            return CodeChunk.ChunkCategory.IMPORTS;
        }
        if (!existed && kind != Outline.SymbolKind.BLOCK) {
            return test
                    ? CodeChunk.ChunkCategory.NEW_TEST
                    : kind == Outline.SymbolKind.TYPE
                            ? CodeChunk.ChunkCategory.NEW_TYPE
                            : CodeChunk.ChunkCategory.NEW_FUNCTION;
        }
        if (FIX.matcher(subject).find()) {
            return CodeChunk.ChunkCategory.BUG_FIX;
        }
        if (FASTER.matcher(subject).find()) {
            return CodeChunk.ChunkCategory.OPTIMISATION;
        }
        return REFACTOR.matcher(subject).find()
                ? CodeChunk.ChunkCategory.REFACTORING
                : CodeChunk.ChunkCategory.MODIFIED_LOGIC;
    }

    private boolean comments(OwnedEdits group) {
        return group.edits.stream()
                .allMatch(edit -> comments(oldLines, edit.fromOld(), edit.toOld())
                        && comments(newLines, edit.fromNew(), edit.toNew()));
    }

    private static boolean comments(LineIndex lines, int from, int to) {
        for (int line = from; line < to; line++) {
            String text = text(lines, line, line + 1).stripTrailing();
            if (!COMMENT.matcher(text).matches() || text.startsWith("#include")) {
                return false;
            }
        }
        return true;
    }

    /**
     * The hunks of a chunk, each with a few unchanged lines around it. Changed lines of other chunks are excluded, since they
     * would reveal the answer of those samples.
     */
    private String patch(List<FilePatch.LineEdit> parts) {
        ByteBuilder out = new ByteBuilder();
        int last;
        for (int first = 0; first < parts.size(); first = last + 1) {
            last = first;
            while (last + 1 < parts.size() && near(parts.get(last), parts.get(last + 1))) {
                last++;
            }
            hunk(out, parts.subList(first, last + 1));
        }
        return new String(out.array(), 0, out.size(), StandardCharsets.UTF_8);
    }

    private boolean near(FilePatch.LineEdit part, FilePatch.LineEdit next) {
        int between = next.fromNew() - part.toNew();
        return between <= 2 * CONTEXT && between == unchangedAfter(part);
    }

    private int unchangedBefore(FilePatch.LineEdit part) {
        for (FilePatch.LineEdit edit : edits.reversed()) {
            if (edit.fromNew() < part.fromNew()) {
                return Math.max(0, part.fromNew() - edit.toNew());
            }
        }
        return part.fromNew();
    }

    private int unchangedAfter(FilePatch.LineEdit part) {
        for (FilePatch.LineEdit edit : edits) {
            if (edit.toNew() > part.toNew()) {
                return Math.max(0, edit.fromNew() - part.toNew());
            }
        }
        return newLines.count() - part.toNew();
    }

    private void hunk(ByteBuilder out, List<FilePatch.LineEdit> parts) {
        FilePatch.LineEdit first = parts.getFirst();
        FilePatch.LineEdit last = parts.getLast();
        int before = Math.min(CONTEXT, unchangedBefore(first));
        int after = Math.min(CONTEXT, unchangedAfter(last));
        out.addLatin("@@ -" + range(first.fromOld() - before, last.toOld() + after) + " +"
                + range(first.fromNew() - before, last.toNew() + after) + " @@\n");
        int line = first.fromNew() - before;
        for (FilePatch.LineEdit part : parts) {
            append(out, ' ', newLines, line, part.fromNew());
            append(out, '-', oldLines, part.fromOld(), part.toOld());
            append(out, '+', newLines, part.fromNew(), part.toNew());
            line = part.toNew();
        }
        append(out, ' ', newLines, line, line + after);
    }

    /** A line range in the notation of hunks: from 1, or the line before an empty range. */
    private static String range(int from, int to) {
        return (from == to ? from : from + 1) + "," + (to - from);
    }

    private static void append(ByteBuilder out, char mark, LineIndex lines, int from, int to) {
        for (int line = from; line < to; line++) {
            out.add(mark).add(lines.bytes(), lines.start(line), lines.end(line));
            if (out.at(out.size() - 1) != '\n') {
                out.add('\n');
            }
        }
    }

    public static String text(LineIndex lines, int from, int to) {
        return from >= to
                ? ""
                : new String(
                        lines.bytes(), lines.start(from), lines.start(to) - lines.start(from), StandardCharsets.UTF_8);
    }
}
