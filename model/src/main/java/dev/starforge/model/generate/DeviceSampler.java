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
 * Samples tokens on the device, so that a step reads back tokens instead of logits. Token counts for penalties are on the
 * device too, one row of the vocabulary for each history. The sampling inputs are part of a step's single upload; the
 * sampled tokens and their logprobs are a single read.
 */
final class DeviceSampler {
    /** Integers that key a random number: seed (low, high) and token index. */
    private static final int RANDOM_KEY = 3;

    private final Device device;
    private final int vocabulary;
    private final Tensor tokenCounts; // [histories, V]

    DeviceSampler(Device device, Scope session, int vocabulary, int histories) {
        this.device = device;
        this.vocabulary = vocabulary;
        tokenCounts = session.allocate(Spec.i32(histories, vocabulary));
    }

    /** Starts a history with the tokens of a prompt and those generated so far. */
    void startHistory(int history, int[] prompt, int[] generated) {
        int[] row = new int[vocabulary];
        Arrays.fill(row, Decoding.NEVER);
        for (int id : prompt) {
            row[id] = 0;
        }
        for (int id : generated) {
            row[id] = Math.max(0, row[id]) + 1;
        }
        device.write(tokenCounts.view((long) history * vocabulary, Shape.of(vocabulary)), row);
    }

    /** Returns the number of input values for {@code rows} rows: parameters, random keys, histories and token masks. */
    static int inputSize(int rows, int maskWords) {
        return rows * (SamplerSetting.COUNT + RANDOM_KEY + 1 + maskWords);
    }

    /** Writes the sampling inputs to {@code input} from index {@code at} on. Rows beyond {@code samplings} are skipped. */
    static void fill(int[] input, int at, int rows, int maskWords, List<RowSampling> samplings) {
        int draws = at + rows * SamplerSetting.COUNT;
        int histories = draws + rows * RANDOM_KEY;
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
            input[draws + i * RANDOM_KEY] = (int) sampling.params().seed();
            input[draws + i * RANDOM_KEY + 1] = (int) (sampling.params().seed() >>> 32);
            input[draws + i * RANDOM_KEY + 2] = sampling.tokenIndex();
            input[histories + i] = sampling.history();
            int mask = masks + i * maskWords;
            sampling.allowed().ifPresent(ids -> {
                Arrays.fill(input, mask, mask + maskWords, 0);
                ids.stream().forEach(id -> input[mask + id / Integer.SIZE] |= 1 << id);
            });
        }
    }

    /** Returns the spec of the output: token, logprob, and {@code top} tokens with logprobs for each row. */
    static Spec outputSpec(int rows, int top) {
        return Spec.i32(rows * (2L + 2L * top));
    }

    /** Samples a token from each row of logits and writes everything to {@code output}. */
    void sample(Tensor logits, Tensor input, int maskWords, Tensor output, int top) {
        long rows = logits.dim(0);
        long draws = rows * SamplerSetting.COUNT;
        Tensor none = input.view(0, Shape.of(rows, 0));
        Tensor[] in = {
            logits,
            input.view(0, Shape.of(rows, SamplerSetting.COUNT)).as(DType.F32),
            input.view(draws, Shape.of(rows, RANDOM_KEY)),
            input.view(draws + rows * RANDOM_KEY, Shape.of(rows)),
            tokenCounts,
            none,
            none.as(DType.F32),
            input.view(draws + rows * (RANDOM_KEY + 1), Shape.of(rows, maskWords))
        };
        Tensor[] out = {
            output.view(0, Shape.of(rows)),
            output.view(rows, Shape.of(rows)).as(DType.F32),
            output.view(2 * rows, Shape.of(rows, top)),
            output.view((2 + top) * rows, Shape.of(rows, top)).as(DType.F32)
        };
        device.run(new Decoding.Sample(top), in, out);
    }

    /** Reads the first {@code count} of {@code rows} rows. */
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
