package dev.starforge.data.dataset.dedup;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Files and chunks that are compared for duplicates: their names and, after the search, the newer text that each repeats. */
public final class ComparedTexts implements AutoCloseable {
    /** The two kinds of text; a file is never a duplicate of a chunk. */
    public enum TextKind {
        FILE,
        CHUNK
    }

    private final DuplicateFinder finder;
    private final List<String> names = new ArrayList<>();
    private int[] keeper = new int[0];

    /** @param gramFile temporary file for the 5-grams of all texts */
    public ComparedTexts(Path gramFile, double similarity) {
        finder = new DuplicateFinder(gramFile, similarity);
    }

    /** Adds a text, which must be at least as new as those before, and returns its number. */
    public int add(TextKind kind, String name, long hash, long[] grams) {
        names.add(name);
        return finder.add(kind.ordinal(), hash, grams);
    }

    /** Searches for duplicates; call it after the last text is added. */
    public void findDuplicates() {
        keeper = finder.find();
    }

    public boolean isDuplicate(int text) {
        return keeper[text] != DuplicateFinder.KEPT;
    }

    /** The newer text that a duplicate repeats, or {@link DuplicateFinder#KEPT}. */
    public int keeper(int text) {
        return keeper[text];
    }

    public String name(int text) {
        return names.get(text);
    }

    @Override
    public void close() {
        finder.close();
    }
}
