package dev.starforge.cpu.attention;

import dev.starforge.cpu.core.Exp;
import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.cpu.matmul.Tile;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.op.Operands.AttentionGradInputs;
import dev.starforge.tensor.op.Operands.AttentionGradOutputs;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The gradient of {@link Attention}. It recomputes probabilities from the saved log-sum-exp; its lanes are queries, and keys
 * and values are broadcast over them. For dk and dv the lanes are keys: the same loops with the roles exchanged, one writer
 * for each row. Tiles are [panel][d][lane].
 */
public final class AttentionGradient extends AttentionLayout {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;

    /** Keys (or, for dk and dv, queries of the group's heads) that are broadcast over the lanes at a time. */
    private static final int BROADCAST_ROWS = 48;

    /** Lanes that a chunk fills, approximately. */
    private static final int LANES = 64;

    private final int rows; // d, for whole tiles
    private final int stride; // distance of keys in scratch
    private final int queries; // of a chunk
    private final int lanes; // of a chunk

    public AttentionGradient(float scale, int window, int block, Shape q, Shape k) {
        super(scale, window, block, q, k);
        rows = Lanes.pad(d, Tile.NARROW_ROWS);
        stride = rows + 4;
        queries = Math.max(1, LANES / Math.max(1, group));
        lanes = Lanes.pad(Math.max(LANES, queries * group), W);
    }

    /** Four tiles of all lanes, two of what is spread, two of scores, two numbers for each spread row or lane; shared: delta. */
    public Scratch scratch() {
        return new Scratch(
                tokens * heads,
                4L * lanes * rows
                        + 2 * BROADCAST_ROWS * stride
                        + 2 * BROADCAST_ROWS * W
                        + 2 * Math.max(lanes, BROADCAST_ROWS)
                        + rows);
    }

    private WorkItems keyWorkItems(View starts, View positions) {
        int[] from = new int[Math.toIntExact(starts.size - 1)];
        int[] to = new int[from.length];
        for (int s = 0; s < from.length; s++) {
            int begin = starts.index(s);
            int end = starts.index(s + 1);
            from[s] = begin < end ? firstKey(positions, begin, end) : 0;
            to[s] = begin < end ? lastKey(positions, begin, end) + 1 : 0;
        }
        return workItems(from, to, LANES);
    }

    public void run(Workers workers, AttentionGradInputs<View> in, AttentionGradOutputs<View> out) {
        workers.rows(tokens * heads, d, (row, s, at) -> s[(int) row] = delta(in.y(), in.dy(), row));
        WorkItems byQuery = queryWorkItems(in.forward().starts(), queries);
        workers.run(byQuery.size() * kvHeads, (chunk, s, at) -> {
            int piece = (int) (chunk / kvHeads);
            int n = byQuery.from()[piece];
            int end = Math.min(n + queries, in.forward().starts().index(byQuery.sequence()[piece] + 1));
            queryGradient(in, out.dq(), byQuery.sequence()[piece], n, end, (int) (chunk % kvHeads), s, at);
        });
        Elementwise.fill(workers, 0, out.dk());
        Elementwise.fill(workers, 0, out.dv());
        WorkItems byKey = keyWorkItems(in.forward().starts(), in.forward().positions());
        workers.run(byKey.size() * kvHeads, (chunk, s, at) -> {
            int piece = (int) (chunk / kvHeads);
            keyGradient(in, out, byKey.sequence()[piece], byKey.from()[piece], (int) (chunk % kvHeads), s, at);
        });
    }

    /** The sum of y * dy over a row: what every probability's gradient is measured against. */
    private float delta(View y, View dy, long row) {
        double delta = 0;
        for (int i = 0; i < d; i++) {
            delta += (double) y.at(row * d + i) * dy.at(row * d + i);
        }
        return (float) delta;
    }

    private void queryGradient(
            AttentionGradInputs<View> in, View out, int sequence, int n, int end, int kvHead, float[] s, int at) {
        int used = (end - n) * group;
        int panels = Lanes.pad(used, W) / W;
        int q = at;
        int dy = q + lanes * rows;
        int dq = dy + lanes * rows;
        int k = dq + lanes * rows;
        int v = k + BROADCAST_ROWS * stride;
        int scores = v + BROADCAST_ROWS * stride;
        int slopes = scores + BROADCAST_ROWS * W;
        int lse = slopes + BROADCAST_ROWS * W;
        int delta = lse + lanes;
        int strip = delta + lanes;
        gather(in.forward().q(), n, kvHead, used, s, q, strip);
        scale(s, q, panels * rows * W, scale);
        gather(in.dy(), n, kvHead, used, s, dy, strip);
        Arrays.fill(s, dq, dq + panels * rows * W, 0);
        Arrays.fill(s, lse, lse + 2 * lanes, 0);
        for (int r = 0; r < used; r++) {
            s[lse + r] = in.lse().at(row(n, kvHead, r));
            s[delta + r] = s[(int) row(n, kvHead, r)];
        }
        int last = lastKey(in.forward().positions(), n, end);
        int next;
        for (int t = firstKey(in.forward().positions(), n, end); t <= last; t = next) {
            next = Math.min(last + 1, (t / BROADCAST_ROWS + 1) * BROADCAST_ROWS);
            fetch(in.forward().k(), in.forward().tables(), sequence, kvHead, t, next, s, k);
            fetch(in.forward().v(), in.forward().tables(), sequence, kvHead, t, next, s, v);
            for (int panel = 0; panel < panels; panel++) {
                dots(s, k, q + panel * rows * W, next - t, scores);
                dots(s, v, dy + panel * rows * W, next - t, slopes);
                subtractLanes(s, scores, next - t, lse + panel * W);
                maskKeys(in.forward().positions(), n, panel * W, used, t, next, s, scores);
                Exp.run(s, scores, (next - t) * W);
                subtractLanes(s, slopes, next - t, delta + panel * W);
                Elementwise.mul(s, slopes, scores, (next - t) * W);
                addWeighted(s, k, slopes, next - t, dq + panel * rows * W);
            }
        }
        scale(s, dq, panels * rows * W, scale);
        for (int r = 0; r < used; r++) {
            readLane(s, dq, r, strip);
            out.store(row(n, kvHead, r) * d, d, s, strip);
        }
    }

    /** Lanes are keys from {@code first} on; the queries of the group's heads are broadcast over them. */
    private void keyGradient(
            AttentionGradInputs<View> in,
            AttentionGradOutputs<View> out,
            int sequence,
            int first,
            int kvHead,
            float[] s,
            int at) {
        View positions = in.forward().positions();
        int begin = in.forward().starts().index(sequence);
        int end = in.forward().starts().index(sequence + 1);
        int used = Math.min(LANES, lastKey(positions, begin, end) + 1 - first);
        int panels = Lanes.pad(used, W) / W;
        int k = at;
        int v = k + lanes * rows;
        int dk = v + lanes * rows;
        int dv = dk + lanes * rows;
        int q = dv + lanes * rows;
        int dy = q + BROADCAST_ROWS * stride;
        int scores = dy + BROADCAST_ROWS * stride;
        int slopes = scores + BROADCAST_ROWS * W;
        int lse = slopes + BROADCAST_ROWS * W;
        int delta = lse + BROADCAST_ROWS;
        int strip = lse + 2 * Math.max(lanes, BROADCAST_ROWS);
        Arrays.fill(s, k, q, 0);
        for (int lane = 0; lane < used; lane++) {
            long from = key(in.forward().tables(), sequence, first + lane, kvHead);
            in.forward().k().load(from, d, s, strip);
            writeLane(s, k, lane, strip);
            in.forward().v().load(from, d, s, strip);
            writeLane(s, v, lane, strip);
        }
        for (int from = 0; from < (end - begin) * group; from += BROADCAST_ROWS) {
            int count = Math.min(BROADCAST_ROWS, (end - begin) * group - from);
            int n = begin + from / group;
            int after = begin + (from + count - 1) / group + 1;
            if (lastKey(positions, n, after) < first || firstKey(positions, n, after) >= first + used) {
                continue;
            }
            for (int r = 0; r < count; r++) {
                long row = row(begin, kvHead, from + r);
                in.forward().q().load(row * d, d, s, q + r * stride);
                in.dy().load(row * d, d, s, dy + r * stride);
                s[lse + r] = in.lse().at(row);
                s[delta + r] = s[(int) row];
            }
            scale(s, q, count * stride, scale);
            for (int panel = 0; panel < panels; panel++) {
                dots(s, q, k + panel * rows * W, count, scores);
                dots(s, dy, v + panel * rows * W, count, slopes);
                subtractRows(s, scores, count, lse);
                maskQueries(positions, begin, from, count, first + panel * W, s, scores);
                Exp.run(s, scores, count * W);
                subtractRows(s, slopes, count, delta);
                Elementwise.mul(s, slopes, scores, count * W);
                addWeighted(s, dy, scores, count, dv + panel * rows * W);
                addWeighted(s, q, slopes, count, dk + panel * rows * W);
            }
        }
        for (int lane = 0; lane < used; lane++) {
            long to = key(in.forward().tables(), sequence, first + lane, kvHead);
            readLane(s, dk, lane, strip);
            out.dk().store(to, d, s, strip);
            readLane(s, dv, lane, strip);
            out.dv().store(to, d, s, strip);
        }
    }

    /** Loads query rows of a chunk as lanes; unused lanes are zero. */
    private void gather(View x, int n, int kvHead, int used, float[] s, int to, int strip) {
        Arrays.fill(s, to, to + Lanes.pad(used, W) * rows, 0);
        for (int r = 0; r < used; r++) {
            x.load(row(n, kvHead, r) * d, d, s, strip);
            writeLane(s, to, r, strip);
        }
    }

    private void writeLane(float[] s, int tile, int lane, int strip) {
        int to = tile + lane / W * rows * W + lane % W;
        for (int i = 0; i < d; i++) {
            s[to + i * W] = s[strip + i];
        }
    }

    private void readLane(float[] s, int tile, int lane, int strip) {
        int from = tile + lane / W * rows * W + lane % W;
        for (int i = 0; i < d; i++) {
            s[strip + i] = s[from + i * W];
        }
    }

    /** Loads keys or values t..next-1 of a sequence from the cache. */
    private void fetch(View x, View tables, int sequence, int kvHead, int t, int next, float[] s, int to) {
        for (int i = t; i < next; i++) {
            x.load(key(tables, sequence, i, kvHead), d, s, to + (i - t) * stride);
        }
    }

    /** scores[row][lane] = the sum over d of x[row][d] * panel[d][lane]. */
    private void dots(float[] s, int x, int panel, int count, int scores) {
        Arrays.fill(s, scores, scores + count * W, 0);
        for (int row = 0; row < count; row += Tile.NARROW_ROWS) {
            Tile.narrow(s, x + row * stride, stride, 1, panel, d, scores + row * W);
        }
    }

    /** panel[d][lane] += the sum over rows of x[row][d] * weights[row][lane]. */
    private void addWeighted(float[] s, int x, int weights, int count, int panel) {
        for (int i = 0; i < d; i += Tile.NARROW_ROWS) {
            Tile.narrow(s, x + i, 1, stride, weights, count, panel + i * W);
        }
    }

    /** Masks keys from t on in the lanes whose query must not attend to them. */
    private void maskKeys(View positions, int n, int lane0, int used, int t, int next, float[] s, int scores) {
        for (int lane = 0; lane < W && lane0 + lane < used; lane++) {
            int position = positions.index(n + (lane0 + lane) / group);
            int first = first(window, position);
            for (int i = t; i < Math.min(first, next); i++) {
                s[scores + (i - t) * W + lane] = Float.NEGATIVE_INFINITY;
            }
            for (int i = Math.max(t, position + 1); i < next; i++) {
                s[scores + (i - t) * W + lane] = Float.NEGATIVE_INFINITY;
            }
        }
    }

    /** Masks queries (rows) that must not attend to the keys from t on (lanes). */
    private void maskQueries(View positions, int begin, int from, int count, int t, float[] s, int scores) {
        for (int row = 0; row < count; row++) {
            int position = positions.index(begin + (from + row) / group);
            int first = first(window, position);
            if (first > t || position < t + W - 1) {
                for (int lane = 0; lane < W; lane++) {
                    if (t + lane < first || t + lane > position) {
                        s[scores + row * W + lane] = Float.NEGATIVE_INFINITY;
                    }
                }
            }
        }
    }

    /** Every row minus the vector at {@code y}. */
    private static void subtractLanes(float[] s, int x, int count, int y) {
        FloatVector v = FloatVector.fromArray(SPECIES, s, y);
        for (int row = 0; row < count; row++) {
            FloatVector.fromArray(SPECIES, s, x + row * W).sub(v).intoArray(s, x + row * W);
        }
    }

    /** Every row minus its own number in the list at {@code y}. */
    private static void subtractRows(float[] s, int x, int count, int y) {
        for (int row = 0; row < count; row++) {
            FloatVector.fromArray(SPECIES, s, x + row * W).sub(s[y + row]).intoArray(s, x + row * W);
        }
    }
}
