package dev.starforge.data.git;

import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;

/**
 * The patch of one file in the format of {@code git apply}. The original lines are compared; a {@link LineWriter} may write
 * them redacted.
 */
public final class FilePatch {
    private static final int CONTEXT = 3;

    /** Appends a line of a file, or its redacted form, with its newline if it has one. */
    public interface LineWriter {
        void append(ByteBuilder out, LineIndex lines, int line);
    }

    /** Old lines that are replaced by new ones; lines count from 0, and {@code to} is exclusive. */
    public record LineEdit(int fromOld, int toOld, int fromNew, int toNew) {}

    private final FileChange change;
    private final UnaryOperator<String> paths;
    private final String oldPath;
    private final String newPath;
    private final List<LineEdit> edits;
    private final LineIndex oldLines;
    private final LineIndex newLines;

    private FilePatch(FileChange change, byte[] oldContent, byte[] newContent, UnaryOperator<String> paths) {
        this.change = change;
        this.paths = paths;
        oldPath = paths.apply(GitPath.raw(change.oldSide().path()));
        newPath = Arrays.equals(change.oldSide().path(), change.newSide().path())
                ? oldPath
                : paths.apply(GitPath.raw(change.newSide().path()));
        oldLines = LineIndex.of(oldContent);
        newLines = LineIndex.of(newContent);
        edits = LineDiff.edits(oldContent, newContent);
    }

    /** @param paths maps a path, one character per byte, to its redacted form */
    public static FilePatch of(FileChange change, byte[] oldContent, byte[] newContent, UnaryOperator<String> paths) {
        return new FilePatch(change, oldContent, newContent, paths);
    }

    public int additions() {
        int additions = 0;
        for (LineEdit edit : edits) {
            additions += edit.toNew() - edit.fromNew();
        }
        return additions;
    }

    public int deletions() {
        int deletions = 0;
        for (LineEdit edit : edits) {
            deletions += edit.toOld() - edit.fromOld();
        }
        return deletions;
    }

    /** The lines of the old file. */
    public LineIndex oldLines() {
        return oldLines;
    }

    /** The changed lines alone, without context. */
    public List<LineEdit> changes() {
        return edits;
    }

    /** Writes the patch with the lines as they are. */
    public void write(ByteBuilder out) {
        write(out, (to, lines, line) -> to.add(lines.bytes(), lines.start(line), lines.end(line)));
    }

    public void write(ByteBuilder out, LineWriter shown) {
        if (change.type() == FileChange.ChangeType.T) {
            // git writes a change of type as a deletion and an addition
            byte[] nothing = new byte[0];
            FileChange gone = new FileChange(FileChange.ChangeType.D, change.oldSide(), FileChange.Side.NONE, 0);
            FileChange come = new FileChange(FileChange.ChangeType.A, FileChange.Side.NONE, change.newSide(), 0);
            new FilePatch(gone, oldLines.bytes(), nothing, paths).write(out, shown);
            new FilePatch(come, nothing, newLines.bytes(), paths).write(out, shown);
            return;
        }
        writeHeader(out);
        if (!edits.isEmpty()) {
            out.addLatin("--- ").addLatin(name("a/", change.oldSide())).add('\n');
            out.addLatin("+++ ").addLatin(name("b/", change.newSide())).add('\n');
        }
        for (int first = 0; first < edits.size(); ) {
            int last = first;
            while (last + 1 < edits.size()
                    && edits.get(last + 1).fromOld() - edits.get(last).toOld() <= 2 * CONTEXT) {
                last++;
            }
            writeHunk(out, edits.subList(first, last + 1), shown);
            first = last + 1;
        }
    }

    private void writeHeader(ByteBuilder out) {
        FileChange.Side from = change.oldSide().exists() ? change.oldSide() : change.newSide();
        FileChange.Side to = change.newSide().exists() ? change.newSide() : change.oldSide();
        out.addLatin("diff --git ").addLatin(path("a/", from)).add(' ');
        out.addLatin(path("b/", to)).add('\n');
        boolean created = change.type() == FileChange.ChangeType.A;
        boolean removed = change.type() == FileChange.ChangeType.D;
        if (created || removed) {
            writeField(out, created ? "new file mode " : "deleted file mode ", Integer.toOctalString(to.mode()));
        } else if (from.mode() != to.mode()) {
            writeField(out, "old mode ", Integer.toOctalString(from.mode()));
            writeField(out, "new mode ", Integer.toOctalString(to.mode()));
        }
        if (change.type() == FileChange.ChangeType.R || change.type() == FileChange.ChangeType.C) {
            boolean moved = change.type() == FileChange.ChangeType.R;
            writeField(out, "similarity index ", change.similarity() + "%");
            writeField(out, moved ? "rename from " : "copy from ", path("", from));
            writeField(out, moved ? "rename to " : "copy to ", path("", to));
        }
        if (!change.oldSide().id().equals(change.newSide().id())) {
            out.addLatin("index ").addLatin(change.oldSide().id().name()).addLatin("..");
            boolean sameMode = !created && !removed && from.mode() == to.mode();
            writeField(out, change.newSide().id().name(), sameMode ? " " + Integer.toOctalString(to.mode()) : "");
        }
    }

    private static void writeField(ByteBuilder out, String name, String value) {
        out.addLatin(name).addLatin(value).add('\n');
    }

    private String path(String prefix, FileChange.Side side) {
        return GitPath.inPatch(prefix, side == change.oldSide() ? oldPath : newPath);
    }

    /** A path with a space is followed by a tab, which separates it from a possible date. */
    private String name(String prefix, FileChange.Side side) {
        if (!side.exists()) {
            return "/dev/null";
        }
        String name = path(prefix, side);
        return name.indexOf(' ') >= 0 && !name.startsWith("\"") ? name + "\t" : name;
    }

    private void writeHunk(ByteBuilder out, List<LineEdit> part, LineWriter shown) {
        LineEdit first = part.getFirst();
        LineEdit last = part.getLast();
        int before = Math.min(CONTEXT, first.fromOld());
        int after = Math.min(CONTEXT, oldLines.count() - last.toOld());
        out.addLatin("@@ -");
        writeRange(out, first.fromOld() - before, last.toOld() + after);
        out.addLatin(" +");
        writeRange(out, first.fromNew() - before, last.toNew() + after);
        out.addLatin(" @@\n");
        int at = first.fromOld() - before;
        for (LineEdit edit : part) {
            writeLines(out, ' ', oldLines, at, edit.fromOld(), shown);
            writeLines(out, '-', oldLines, edit.fromOld(), edit.toOld(), shown);
            writeLines(out, '+', newLines, edit.fromNew(), edit.toNew(), shown);
            at = edit.toOld();
        }
        writeLines(out, ' ', oldLines, at, at + after, shown);
    }

    private static void writeRange(ByteBuilder out, int from, int to) {
        int length = to - from;
        out.addLatin(Integer.toString(length == 0 ? from : from + 1));
        if (length != 1) {
            out.add(',').addLatin(Integer.toString(length));
        }
    }

    private static void writeLines(ByteBuilder out, char mark, LineIndex lines, int from, int to, LineWriter shown) {
        for (int line = from; line < to; line++) {
            shown.append(out.add(mark), lines, line);
            if (lines.bytes()[lines.end(line) - 1] != '\n') {
                out.addLatin("\n\\ No newline at end of file\n");
            }
        }
    }
}
