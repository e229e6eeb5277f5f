package dev.starforge.cpu.attention;

import dev.starforge.cpu.core.View;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.Shape;

/**
 * Base of attention and its gradient: the layout of queries and keys, the causal mask, and the work items.
 *
 * <p>Legend: N queries, H heads, D head size, t a key's position.
 */
abstract sealed class AttentionLayout permits Attention, AttentionGradient {
    final float scale;
    final int window;
    final int block;
    final long tokens;
    final int heads;
    final int kvHeads;
    final int group;
    final int d;

    AttentionLayout(float scale, int window, int block, Shape q, Shape k) {
        this.scale = scale;
        this.window = window;
        this.block = block;
        tokens = q.dim(0);
        heads = Math.toIntExact(q.dim(1));
        kvHeads = Math.toIntExact(k.dim(1));
        group = heads / kvHeads;
        d = Math.toIntExact(q.dim(2));
    }

    static int first(int window, int position) {
        return window == 0 ? 0 : Math.max(0, position - window + 1);
    }

    /** The sequence and first element of each work item: a chunk of queries or keys. */
    record WorkItems(int[] sequence, int[] from) {
        long size() {
            return sequence.length;
        }
    }

    static WorkItems workItems(int[] from, int[] to, int step) {
        int size = 0;
        for (int s = 0; s < from.length; s++) {
            size += Math.max(0, (to[s] - from[s] + step - 1) / step);
        }
        int[] sequence = new int[size];
        int[] start = new int[size];
        int at = 0;
        for (int s = 0; s < from.length; s++) {
            for (int i = from[s]; i < to[s]; i += step) {
                sequence[at] = s;
                start[at++] = i;
            }
        }
        return new WorkItems(sequence, start);
    }

    static WorkItems queryWorkItems(View starts, int step) {
        int[] from = new int[Math.toIntExact(starts.size - 1)];
        int[] to = new int[from.length];
        for (int s = 0; s < from.length; s++) {
            from[s] = starts.index(s);
            to[s] = starts.index(s + 1);
        }
        return workItems(from, to, step);
    }

    int firstKey(View positions, int begin, int end) {
        int first = Integer.MAX_VALUE;
        for (int n = begin; n < end; n++) {
            first = Math.min(first, first(window, positions.index(n)));
        }
        return first;
    }

    static int lastKey(View positions, int begin, int end) {
        int last = 0;
        for (int n = begin; n < end; n++) {
            last = Math.max(last, positions.index(n));
        }
        return last;
    }

    /** The element where the key at position t of a sequence begins. */
    long key(View tables, long sequence, int t, int kvHead) {
        long row = (long) tables.index(sequence * tables.last + t / block) * block + t % block;
        return (row * kvHeads + kvHead) * d;
    }

    /** The row of q and y that lane r of a chunk starting at query n is. */
    long row(int n, int kvHead, int r) {
        return (n + r / group) * (long) heads + kvHead * group + r % group;
    }

    static void scale(float[] s, int x, int n, float factor) {
        Elementwise.affine(s, x, n, factor, 0);
    }
}
