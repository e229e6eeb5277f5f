package dev.starforge.model.generate;

import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.model.generate.Engine.SampledTokens;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.SamplerSetting;
import java.util.Arrays;
import java.util.List;

/**
 * Chooses tokens where the logits are, so that only tokens come back. Uses of tokens are counted there, too, one row of the
 * vocabulary for each text that has penalties. What it is told goes with the upload of a step, and what it answers is one
 * read, whatever was asked for.
 */
final class DeviceSampler {
    /** Seed, low and high, and the index of the token. */
    private static final int DRAW = 3;

    private final Device device;
    private final int vocabulary;
    private final Tensor uses; // [histories, V]

    DeviceSampler(Device device, Scope session, int vocabulary, int histories) {
        this.device = device;
        this.vocabulary = vocabulary;
        uses = session.allocate(Spec.i32(histories, vocabulary));
    }

    /** Begins a history with the tokens of a prompt and those generated since. */
    void startHistory(int history, int[] prompt, int[] generated) {
        int[] row = new int[vocabulary];
        Arrays.fill(row, Decoding.NEVER);
        for (int id : prompt) {
            row[id] = 0;
        }
        for (int id : generated) {
            row[id] = Math.max(0, row[id]) + 1;
        }
        device.write(uses.view((long) history * vocabulary, Shape.of(vocabulary)), row);
    }

    /** Numbers that say how to choose after so many rows: settings, then what draws are keyed by, histories, and masks. */
    static int inputSize(int rows, int maskWords) {
        return rows * (SamplerSetting.COUNT + DRAW + 1 + maskWords);
    }

    /** Fills these in, from {@code at} on; rows without a choice are skipped. */
    static void fill(int[] input, int at, int rows, int maskWords, List<RowSampling> samplings) {
        int draws = at + rows * SamplerSetting.COUNT;
        int histories = draws + rows * DRAW;
        int masks = histories + rows;
        Arrays.fill(input, at, histories, 0);
        Arrays.fill(input, histories, masks, Decoding.SKIPPED);
        Arrays.fill(input, masks, masks + rows * maskWords, -1);
        for (int i = 0; i < samplings.size(); i++) {
            RowSampling sampling = samplings.get(i);
            float[] settings = sampling.params().toRow();
            for (int k = 0; k < settings.length; k++) {
                input[at + i * SamplerSetting.COUNT + k] = Float.floatToRawIntBits(settings[k]);
            }
            input[draws + i * DRAW] = (int) sampling.params().seed();
            input[draws + i * DRAW + 1] = (int) (sampling.params().seed() >>> 32);
            input[draws + i * DRAW + 2] = sampling.tokenIndex();
            input[histories + i] = sampling.history();
            int mask = masks + i * maskWords;
            sampling.allowed().ifPresent(ids -> {
                Arrays.fill(input, mask, mask + maskWords, 0);
                ids.stream().forEach(id -> input[mask + id / Integer.SIZE] |= 1 << id);
            });
        }
    }

    /** What is chosen after so many rows, with the {@code top} likeliest of each. */
    static Spec outputSpec(int rows, int top) {
        return Spec.i32(rows * (2L + 2L * top));
    }

    /** Chooses after each row of logits as {@code numbers} say, and leaves all of that in one {@code result}. */
    void sample(Tensor logits, Tensor input, int maskWords, Tensor output, int top) {
        long rows = logits.dim(0);
        long draws = rows * SamplerSetting.COUNT;
        Tensor none = input.view(0, Shape.of(rows, 0));
        Tensor[] in = {
            logits,
            input.view(0, Shape.of(rows, SamplerSetting.COUNT)).as(DType.F32),
            input.view(draws, Shape.of(rows, DRAW)),
            input.view(draws + rows * DRAW, Shape.of(rows)),
            uses,
            none,
            none.as(DType.F32),
            input.view(draws + rows * (DRAW + 1), Shape.of(rows, maskWords))
        };
        Tensor[] out = {
            output.view(0, Shape.of(rows)),
            output.view(rows, Shape.of(rows)).as(DType.F32),
            output.view(2 * rows, Shape.of(rows, top)),
            output.view((2 + top) * rows, Shape.of(rows, top)).as(DType.F32)
        };
        device.run(new Decoding.Sample(top), in, out);
    }

    /** The first {@code count} of so many rows. */
    SampledTokens read(Tensor output, int rows, int count, int top) {
        int[] all = device.ints(output);
        return new SampledTokens(
                Arrays.copyOf(all, count),
                floats(all, rows, count),
                Arrays.copyOfRange(all, 2 * rows, 2 * rows + count * top),
                floats(all, (2 + top) * rows, count * top));
    }

    private static float[] floats(int[] bits, int from, int count) {
        float[] floats = new float[count];
        for (int i = 0; i < count; i++) {
            floats[i] = Float.intBitsToFloat(bits[from + i]);
        }
        return floats;
    }
}
