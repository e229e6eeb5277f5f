package dev.starforge.model.generate;

import dev.starforge.model.generate.Engine.Choice;
import dev.starforge.model.generate.Engine.Chosen;
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
    void remember(int history, int[] prompt, int[] generated) {
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
    static int numbers(int rows, int words) {
        return rows * (SamplerSetting.COUNT + DRAW + 1 + words);
    }

    /** Fills these in, from {@code at} on; rows without a choice are skipped. */
    static void fill(int[] numbers, int at, int rows, int words, List<Choice> choices) {
        int draws = at + rows * SamplerSetting.COUNT;
        int histories = draws + rows * DRAW;
        int masks = histories + rows;
        Arrays.fill(numbers, at, histories, 0);
        Arrays.fill(numbers, histories, masks, Decoding.SKIPPED);
        Arrays.fill(numbers, masks, masks + rows * words, -1);
        for (int i = 0; i < choices.size(); i++) {
            Choice choice = choices.get(i);
            float[] settings = choice.sampling().row();
            for (int k = 0; k < settings.length; k++) {
                numbers[at + i * SamplerSetting.COUNT + k] = Float.floatToRawIntBits(settings[k]);
            }
            numbers[draws + i * DRAW] = (int) choice.sampling().seed();
            numbers[draws + i * DRAW + 1] = (int) (choice.sampling().seed() >>> 32);
            numbers[draws + i * DRAW + 2] = choice.index();
            numbers[histories + i] = choice.history();
            int mask = masks + i * words;
            choice.allowed().ifPresent(ids -> {
                Arrays.fill(numbers, mask, mask + words, 0);
                ids.stream().forEach(id -> numbers[mask + id / Integer.SIZE] |= 1 << id);
            });
        }
    }

    /** What is chosen after so many rows, with the {@code top} likeliest of each. */
    static Spec result(int rows, int top) {
        return Spec.i32(rows * (2L + 2L * top));
    }

    /** Chooses after each row of logits as {@code numbers} say, and leaves all of that in one {@code result}. */
    void run(Tensor logits, Tensor numbers, int words, Tensor result, int top) {
        long rows = logits.dim(0);
        long draws = rows * SamplerSetting.COUNT;
        Tensor none = numbers.view(0, Shape.of(rows, 0));
        Tensor[] in = {
            logits,
            numbers.view(0, Shape.of(rows, SamplerSetting.COUNT)).as(DType.F32),
            numbers.view(draws, Shape.of(rows, DRAW)),
            numbers.view(draws + rows * DRAW, Shape.of(rows)),
            uses,
            none,
            none.as(DType.F32),
            numbers.view(draws + rows * (DRAW + 1), Shape.of(rows, words))
        };
        Tensor[] out = {
            result.view(0, Shape.of(rows)),
            result.view(rows, Shape.of(rows)).as(DType.F32),
            result.view(2 * rows, Shape.of(rows, top)),
            result.view((2 + top) * rows, Shape.of(rows, top)).as(DType.F32)
        };
        device.run(new Decoding.Sample(top), in, out);
    }

    /** The first {@code count} of so many rows. */
    Chosen read(Tensor result, int rows, int count, int top) {
        int[] all = device.ints(result);
        return new Chosen(
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
