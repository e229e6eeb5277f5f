package dev.starforge.data.git;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Which lines differ between two files, with the same answer as {@code git diff --histogram --no-indent-heuristic
 * --numstat}: the number of added and removed lines is part of a dataset, and two programs that disagree on it would each
 * call the other's wrong. Histogram diff splits at the longest run of lines that are rare in the old file; where every
 * common line is frequent it gives the piece to Myers' algorithm, with git's shortcuts, since these decide the counts. Like
 * git, it leaves out whole kilobytes that both files end with.
 */
final class LineDiff {
    /** Lines more frequent than this in the old file do not split it. */
    private static final int FREQUENT = 64;

    /** A piece that was replaced: lines {@code from} to {@code to} of each file, without the last. */
    record Edit(int fromOld, int toOld, int fromNew, int toNew) {}

    private final LineIndex oldLines;
    private final LineIndex newLines;
    private final int[] a;
    private final int[] b;
    private final boolean[] removed;
    private final boolean[] added;

    /** For each kind of line, while a piece is indexed: its first place in the old piece and how often it is there. */
    private final int[] first;

    private final int[] frequency;

    /** The next place of the same line in the old piece, or -1. */
    private final int[] next;

    private LineDiff(LineIndex oldLines, LineIndex newLines, int tail) {
        this.oldLines = oldLines;
        this.newLines = newLines;
        a = new int[oldLines.before(oldLines.bytes().length - tail)];
        b = new int[newLines.before(newLines.bytes().length - tail)];
        int kinds = a.length == 0 || b.length == 0 ? 0 : classify();
        removed = new boolean[oldLines.count()];
        added = new boolean[newLines.count()];
        first = new int[kinds];
        frequency = new int[kinds];
        next = new int[a.length];
    }

    /**
     * The edits.
     *
     * @param tail the common tail, of which the lines may lack all but a few
     */
    static List<Edit> edits(LineIndex oldLines, LineIndex newLines, int tail) {
        LineDiff diff = new LineDiff(oldLines, newLines, tail);
        diff.histogram();
        return diff.edits();
    }

    /** Whole kilobytes that both end with, less the line that the first of them begins in. */
    static int commonTail(byte[] x, byte[] y) {
        int block = 1024;
        int trimmed = 0;
        while (block + trimmed <= Math.min(x.length, y.length)
                && Arrays.equals(
                        x,
                        x.length - trimmed - block,
                        x.length - trimmed,
                        y,
                        y.length - trimmed - block,
                        y.length - trimmed)) {
            trimmed += block;
        }
        int recovered = 0;
        while (recovered < trimmed) {
            if (x[x.length - trimmed + recovered++] == '\n') {
                break;
            }
        }
        return trimmed - recovered;
    }

    /** Gives equal lines equal numbers. */
    private int classify() {
        int bits = 32 - Integer.numberOfLeadingZeros(Math.max(8, 2 * (a.length + b.length)));
        int[] table = new int[1 << bits];
        int[] where = new int[a.length + b.length];
        int[] hashes = new int[a.length + b.length];
        int kinds = 0;
        for (int i = 0; i < a.length + b.length; i++) {
            boolean old = i < a.length;
            LineIndex lines = old ? oldLines : newLines;
            int line = old ? i : i - a.length;
            int hash = lines.hash(line);
            int slot = hash >>> 32 - bits;
            int kind = -1;
            while (table[slot] != 0) {
                int candidate = table[slot] - 1;
                int seen = where[candidate];
                if (hashes[candidate] == hash
                        && (seen < a.length
                                ? lines.same(line, oldLines, seen)
                                : lines.same(line, newLines, seen - a.length))) {
                    kind = candidate;
                    break;
                }
                slot = slot + 1 & table.length - 1;
            }
            if (kind < 0) {
                kind = kinds++;
                where[kind] = i;
                hashes[kind] = hash;
                table[slot] = kind + 1;
            }
            if (old) {
                a[line] = kind;
            } else {
                b[line] = kind;
            }
        }
        return kinds;
    }

    /** Pieces wait on a stack of our own: a hostile file must not overflow the thread's. */
    private void histogram() {
        int[] stack = new int[64];
        int depth = 0;
        stack[depth++] = 0;
        stack[depth++] = a.length;
        stack[depth++] = 0;
        stack[depth++] = b.length;
        int[] run = new int[4];
        while (depth > 0) {
            int toB = stack[--depth];
            int fromB = stack[--depth];
            int toA = stack[--depth];
            int fromA = stack[--depth];
            if (fromA == toA) {
                Arrays.fill(added, fromB, toB, true);
            } else if (fromB == toB) {
                Arrays.fill(removed, fromA, toA, true);
            } else {
                switch (longestRareRun(fromA, toA, fromB, toB, run)) {
                    case NOTHING_COMMON -> {
                        Arrays.fill(removed, fromA, toA, true);
                        Arrays.fill(added, fromB, toB, true);
                    }
                    case ALL_FREQUENT -> new Myers(a, fromA, toA, b, fromB, toB, removed, added).run();
                    case FOUND -> {
                        if (depth + 8 > stack.length) {
                            stack = Arrays.copyOf(stack, 2 * stack.length);
                        }
                        stack[depth++] = fromA;
                        stack[depth++] = run[0];
                        stack[depth++] = fromB;
                        stack[depth++] = run[2];
                        stack[depth++] = run[1];
                        stack[depth++] = toA;
                        stack[depth++] = run[3];
                        stack[depth++] = toB;
                    }
                }
            }
        }
    }

    private enum Search {
        NOTHING_COMMON,
        ALL_FREQUENT,
        FOUND
    }

    /** Finds the run to split at: from and to in the old file, from and to in the new one. */
    private Search longestRareRun(int fromA, int toA, int fromB, int toB, int[] run) {
        for (int i = fromA; i < toA; i++) {
            frequency[a[i]] = 0;
        }
        for (int i = fromB; i < toB; i++) {
            frequency[b[i]] = 0;
        }
        for (int i = toA - 1; i >= fromA; i--) {
            int kind = a[i];
            next[i] = frequency[kind]++ == 0 ? -1 : first[kind];
            first[kind] = i;
        }
        boolean common = false;
        int rarest = FREQUENT + 1;
        int longest = 0;
        for (int at = fromB; at < toB; ) {
            int kind = b[at];
            int after = at + 1;
            common |= frequency[kind] > 0;
            if (frequency[kind] > 0 && frequency[kind] <= rarest) {
                for (int place = first[kind]; place >= 0; ) {
                    int rare = frequency[kind];
                    int beginA = place;
                    int beginB = at;
                    while (beginA > fromA && beginB > fromB && a[beginA - 1] == b[beginB - 1]) {
                        beginA--;
                        beginB--;
                        rare = Math.min(rare, frequency[a[beginA]]);
                    }
                    int endA = place + 1;
                    int endB = at + 1;
                    while (endA < toA && endB < toB && a[endA] == b[endB]) {
                        rare = Math.min(rare, frequency[a[endA]]);
                        endA++;
                        endB++;
                    }
                    after = Math.max(after, endB);
                    if (longest < endA - beginA || rare < rarest) {
                        run[0] = beginA;
                        run[1] = endA;
                        run[2] = beginB;
                        run[3] = endB;
                        longest = endA - beginA;
                        rarest = rare;
                    }
                    place = next[place];
                    while (place >= 0 && place < endA) {
                        place = next[place];
                    }
                }
            }
            at = after;
        }
        if (!common) {
            return Search.NOTHING_COMMON;
        }
        return rarest > FREQUENT ? Search.ALL_FREQUENT : Search.FOUND;
    }

    /** The edits, each moved down as far as the lines around it allow, which is where people expect them. */
    private List<Edit> edits() {
        List<Edit> edits = new ArrayList<>();
        int i = 0;
        int j = 0;
        while (i < removed.length || j < added.length) {
            int fromOld = i;
            int fromNew = j;
            while (i < removed.length && removed[i]) {
                i++;
            }
            while (j < added.length && added[j]) {
                j++;
            }
            if (i > fromOld || j > fromNew) {
                edits.add(new Edit(fromOld, i, fromNew, j));
            } else {
                i++;
                j++;
            }
        }
        for (int e = edits.size() - 1; e >= 0; e--) {
            int limit = e + 1 < edits.size() ? edits.get(e + 1).fromNew : added.length + 1;
            edits.set(e, movedDown(edits.get(e), limit));
        }
        return edits;
    }

    private Edit movedDown(Edit edit, int limit) {
        boolean addition = edit.fromOld == edit.toOld;
        if (!addition && edit.fromNew < edit.toNew) {
            return edit;
        }
        LineIndex lines = addition ? newLines : oldLines;
        int from = addition ? edit.fromNew : edit.fromOld;
        int to = addition ? edit.toNew : edit.toOld;
        int moved = 0;
        // one line stays between two edits: touching, they would be one
        while (edit.toNew + moved + 1 < limit && lines.same(from + moved, lines, to + moved)) {
            moved++;
        }
        return new Edit(edit.fromOld + moved, edit.toOld + moved, edit.fromNew + moved, edit.toNew + moved);
    }
}
