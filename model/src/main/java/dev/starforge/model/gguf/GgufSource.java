package dev.starforge.model.gguf;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.file.WeightSource;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Shape;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;

/**
 * The tensors of a GGUF file in HF's form: names are translated ({@link GgufNames}), experts are slices of their
 * stacks, the rows of Llama's q and k projections are reordered to HF's order, and the two parts of MLA's kv_b
 * projection are joined.
 */
public final class GgufSource implements WeightSource {
    private final GgufFile file;
    private final boolean reordered;
    private final int heads;
    private final int kvHeads;
    private String whole = "";
    private float[] values = {};

    public GgufSource(GgufFile file, JsonConfig config) {
        this.file = file;
        this.reordered = GgufNames.pairsAreAdjacent(file.string("general.architecture"));
        this.heads = config.size("num_attention_heads");
        this.kvHeads = config.size("num_key_value_heads", heads);
    }

    public GgufFile file() {
        return file;
    }

    @Override
    public Path path() {
        return file.path();
    }

    @Override
    public Shape shape(String name) {
        if (isJoined(name)) {
            Shape keys = file.tensor(part(name, "attn_k_b")).shape(); // [heads, latent, nopeDim]
            Shape values = file.tensor(part(name, "attn_v_b")).shape(); // [heads, value, latent]
            return Shape.of(keys.dim(0) * (keys.dim(2) + values.dim(1)), keys.dim(1));
        }
        Shape shape = file.tensor(GgufNames.tensor(name)).shape();
        if (shape.rank() == 1 && name.endsWith(".shared_expert_gate.weight")) {
            return Shape.of(1, shape.last()); // quantizers drop dimensions of 1
        }
        return GgufNames.expert(name).matches() ? Shape.of(shape.dim(1), shape.dim(2)) : shape;
    }

    @Override
    public Optional<DType> storedType(String name) {
        boolean moved = isJoined(name) || isReordered(name) && shape(name).rank() == 1;
        return moved
                ? Optional.empty()
                : Optional.of(file.tensor(GgufNames.tensor(name)).format().dtype());
    }

    /** Reordering moves rows within a head; the rows of an expert are contiguous in its stack. */
    @Override
    public void readRows(String name, long first, ByteBuffer into) {
        GgufFile.GgufTensorInfo stored = file.tensor(GgufNames.tensor(name));
        long row = stored.format().bytes(shape(name).last());
        if (!isReordered(name)) {
            file.read(stored, (skipped(name) + first) * row, into);
            return;
        }
        long perHead = perHead(name);
        long end = first + into.remaining() / row;
        long begin = first / perHead * perHead;
        ByteBuffer heads = ByteBuffer.allocate(Math.toIntExact((Math.ceilDiv(end, perHead) * perHead - begin) * row));
        file.read(stored, begin * row, heads);
        for (long to = first; to < end; to++) {
            into.put(heads.slice((int) ((storedRow(name, to) - begin) * row), (int) row));
        }
    }

    @Override
    public Optional<FileRegion> region(String name) {
        if (isJoined(name) || isReordered(name)) {
            return Optional.empty();
        }
        GgufFile.GgufTensorInfo stored = file.tensor(GgufNames.tensor(name));
        long row = stored.format().bytes(shape(name).last());
        return Optional.of(file.region(stored, skipped(name) * row, shape(name).rows() * row));
    }

    @Override
    public void read(String name, long first, float[] out, int count) {
        if (isJoined(name) || isReordered(name)) {
            float[] all = rearranged(name);
            System.arraycopy(all, Math.toIntExact(first), out, 0, count);
            if (first + count == all.length) {
                whole = "";
                values = new float[0];
            }
            return;
        }
        file.readFloats(
                file.tensor(GgufNames.tensor(name)), skipped(name) * shape(name).last() + first, out, 0, count);
    }

    /** Returns the number of rows in the stack before those of this expert. */
    private long skipped(String name) {
        Matcher expert = GgufNames.expert(name);
        return expert.matches() ? Long.parseLong(expert.group(1)) * shape(name).rows() : 0;
    }

    private static String part(String name, String part) {
        return GgufNames.tensor(name).replace("attn_kv_b", part);
    }

    /**
     * Returns true if the file splits kv_b_proj into a transposed part for keys and a part for values, as newer files
     * do.
     */
    private boolean isJoined(String name) {
        return name.endsWith(".kv_b_proj.weight")
                && !file.has(GgufNames.tensor(name))
                && file.has(part(name, "attn_k_b"));
    }

    /** Returns true if the rows are stored with the two dimensions of a rotary pair adjacent, as for Llama. */
    private boolean isReordered(String name) {
        return reordered && (name.contains(".self_attn.q_proj.") || name.contains(".self_attn.k_proj."));
    }

    private float[] rearranged(String name) {
        if (!whole.equals(name)) {
            values = isJoined(name) ? joined(name) : reordered(name);
            whole = name;
        }
        return values;
    }

    private float[] reordered(String name) {
        float[] stored = file.readFloats(GgufNames.tensor(name));
        Shape shape = shape(name);
        int width = shape.rank() == 1 ? 1 : Math.toIntExact(shape.last());
        float[] ours = new float[stored.length];
        for (int row = 0; row < stored.length / width; row++) {
            System.arraycopy(stored, (int) storedRow(name, row) * width, ours, row * width, width);
        }
        return ours;
    }

    /** Returns the index in the file of a row of the q or k projection. */
    private long storedRow(String name, long row) {
        long perHead = perHead(name);
        long i = row % perHead;
        long pair = i % (perHead / 2);
        long half = i / (perHead / 2);
        return row - i + 2 * pair + half;
    }

    private long perHead(String name) {
        return shape(name).dim(0) / (name.contains(".q_proj.") ? heads : kvHeads);
    }

    private float[] joined(String name) {
        Shape shape = file.tensor(part(name, "attn_k_b")).shape();
        int latent = Math.toIntExact(shape.dim(1));
        int nopeDim = Math.toIntExact(shape.dim(2));
        int value = Math.toIntExact(file.tensor(part(name, "attn_v_b")).shape().dim(1));
        float[] forKeys = file.readFloats(part(name, "attn_k_b"));
        float[] forValues = file.readFloats(part(name, "attn_v_b"));
        float[] ours = new float[forKeys.length + forValues.length];
        for (int h = 0; h < shape.dim(0); h++) {
            int at = h * (nopeDim + value) * latent;
            for (int i = 0; i < nopeDim; i++) {
                for (int l = 0; l < latent; l++) {
                    ours[at + i * latent + l] = forKeys[(h * latent + l) * nopeDim + i];
                }
            }
            System.arraycopy(forValues, h * value * latent, ours, at + nopeDim * latent, value * latent);
        }
        return ours;
    }

    /**
     * Inverse of reading: writes a tensor in HF's form into the stored tensors that it is part of, which {@code into}
     * maps by name.
     */
    public void put(String name, float[] ours, Map<String, float[]> into) {
        if (isJoined(name)) {
            split(name, ours, holder(part(name, "attn_k_b"), into), holder(part(name, "attn_v_b"), into));
        } else if (isReordered(name)) {
            Shape shape = shape(name);
            int width = shape.rank() == 1 ? 1 : Math.toIntExact(shape.last());
            int rows = ours.length / width / (name.contains(".q_proj.") ? heads : kvHeads);
            System.arraycopy(interleaved(ours, width, rows), 0, holder(GgufNames.tensor(name), into), 0, ours.length);
        } else {
            Matcher expert = GgufNames.expert(name);
            int at = expert.matches() ? Integer.parseInt(expert.group(1)) * ours.length : 0;
            System.arraycopy(ours, 0, holder(GgufNames.tensor(name), into), at, ours.length);
        }
    }

    private static float[] holder(String name, Map<String, float[]> among) {
        return Objects.requireNonNull(among.get(name), name);
    }

    /** Returns the stored tensors that contain a tensor of HF's form. */
    public List<String> holders(String name) {
        return isJoined(name)
                ? List.of(part(name, "attn_k_b"), part(name, "attn_v_b"))
                : List.of(GgufNames.tensor(name));
    }

    /**
     * Reorders the rows of Llama's q and k projections as llama.cpp stores them: the two dimensions of a rotary pair
     * adjacent.
     */
    public static float[] interleaved(float[] ours, int width, int perHead) {
        float[] stored = new float[ours.length];
        for (int row = 0; row < ours.length / width; row++) {
            int i = row % perHead;
            int to = row - i + 2 * (i % (perHead / 2)) + i / (perHead / 2);
            System.arraycopy(ours, row * width, stored, to * width, width);
        }
        return stored;
    }

    private void split(String name, float[] ours, float[] forKeys, float[] forValues) {
        Shape shape = file.tensor(part(name, "attn_k_b")).shape();
        split(ours, forKeys, forValues, Math.toIntExact(shape.dim(0)), Math.toIntExact(shape.dim(2)));
    }

    /**
     * Splits kv_b_proj [heads * (nopeDim + value), latent] into a part for keys [heads, latent, nopeDim] and one for
     * values [heads, value, latent].
     */
    public static void split(float[] ours, float[] forKeys, float[] forValues, int heads, int nopeDim) {
        int latent = forKeys.length / heads / nopeDim;
        int value = forValues.length / heads / latent;
        for (int h = 0; h < heads; h++) {
            int at = h * (nopeDim + value) * latent;
            for (int i = 0; i < nopeDim; i++) {
                for (int l = 0; l < latent; l++) {
                    forKeys[(h * latent + l) * nopeDim + i] = ours[at + i * latent + l];
                }
            }
            System.arraycopy(ours, at + nopeDim * latent, forValues, h * value * latent, value * latent);
        }
    }
}
