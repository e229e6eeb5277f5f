package dev.starforge.conformance;

import static dev.starforge.tensor.op.Decoding.SamplerSetting.FREQUENCY_PENALTY;
import static dev.starforge.tensor.op.Decoding.SamplerSetting.MIN_P;
import static dev.starforge.tensor.op.Decoding.SamplerSetting.PRESENCE_PENALTY;
import static dev.starforge.tensor.op.Decoding.SamplerSetting.REPETITION_PENALTY;
import static dev.starforge.tensor.op.Decoding.SamplerSetting.TAIL;
import static dev.starforge.tensor.op.Decoding.SamplerSetting.TEMPERATURE;
import static dev.starforge.tensor.op.Decoding.SamplerSetting.TOP_K;
import static dev.starforge.tensor.op.Decoding.SamplerSetting.TYPICAL_P;

import dev.starforge.conformance.Case.Draw;
import dev.starforge.conformance.Case.Input;
import dev.starforge.conformance.Case.Source;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.SamplerSetting;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntUnaryOperator;

/**
 * Cases of sampling: each parameter alone and all of them in one batch, with and without history, bias and mask; ties at every cutoff;
 * rows that are padding, have NaN, or have no allowed token.
 */
final class SampleCases {
    /** Changes to the distribution of the model. */
    private static final Map<String, Map<SamplerSetting, Double>> SETTINGS = new TreeMap<>(Map.of(
            "greedy",
            Map.of(TEMPERATURE, 0.0),
            "plain",
            Map.of(),
            "temperature",
            Map.of(TEMPERATURE, 0.3),
            "top-k",
            Map.of(TOP_K, 3.0),
            "top-p",
            Map.of(TAIL, 0.2),
            "min-p",
            Map.of(MIN_P, 0.2),
            "typical",
            Map.of(TYPICAL_P, 0.6),
            "penalties",
            Map.of(TEMPERATURE, 0.0, REPETITION_PENALTY, 1.3, PRESENCE_PENALTY, 0.5, FREQUENCY_PENALTY, -0.25),
            "all",
            Map.of(
                    REPETITION_PENALTY,
                    0.9,
                    PRESENCE_PENALTY,
                    -0.5,
                    FREQUENCY_PENALTY,
                    0.3,
                    TEMPERATURE,
                    1.5,
                    TOP_K,
                    40.0,
                    TAIL,
                    0.05,
                    MIN_P,
                    0.01,
                    TYPICAL_P,
                    0.9)));

    private static double setting(Map<SamplerSetting, Double> settings, SamplerSetting setting) {
        double plain = switch (setting) {
            case TEMPERATURE, TYPICAL_P, REPETITION_PENALTY -> 1;
            case TOP_K, TAIL, MIN_P, PRESENCE_PENALTY, FREQUENCY_PENALTY -> 0;
        };
        return settings.getOrDefault(setting, plain);
    }

    private static final Draw NORMAL = (i, n) -> 2 * n;
    private static final Draw TIES = (i, n) -> Math.rint(n);

    private final List<Case> cases = new ArrayList<>();

    private SampleCases() {
        SETTINGS.forEach((name, settings) -> {
            List<Map<SamplerSetting, Double>> one = List.of(settings);
            add(name, 2, NORMAL, one, 5, 7, 0, Masks.NONE);
            add(name + ", ties", 3, TIES, one, 11, 130, 0, Masks.NONE);
            add(name + ", ties", 5, TIES, one, 13, 67, 3, Masks.SOME);
            add(name, 0, NORMAL, one, 3, 5003, 2, Masks.NONE);
        });
        List<Map<SamplerSetting, Double>> all = List.copyOf(SETTINGS.values());
        add("mixed", 7, NORMAL, all, 67, 130, 5, Masks.SOME);
        add("mixed, ties", 7, TIES, all, 67, 131, 0, Masks.SOME);
        add("mixed", 20, NORMAL, all, 27, 1030, 7, Masks.NONE);
        add("mixed", 1, NORMAL, all, 5, 20_011, 2, Masks.SOME);
        add("mixed, all equal", 13, (i, n) -> -1, all, 27, 13, 0, Masks.NONE);
        add("mixed, all of them", 11, NORMAL, all, 27, 11, 1, Masks.SOME);
        add("mixed, one token", 1, NORMAL, all, 27, 1, 0, Masks.NONE);
        add("mixed, whole words", 3, NORMAL, all, 27, 64, 0, Masks.SOME);
        add("mixed, nothing allowed", 3, NORMAL, all, 9, 45, 2, Masks.EMPTY);
        add("no rows", 3, NORMAL, all, 0, 7, 2, Masks.SOME);
        add("mixed, many ruled out", 3, every(3, Double.NEGATIVE_INFINITY, 1), all, 27, 45, 0, Masks.NONE);
        add("mixed, all ruled out", 3, (i, n) -> Double.NEGATIVE_INFINITY, all, 9, 45, 0, Masks.NONE);
        add("mixed, NaN in some rows", 3, every(101, Double.NaN, 17), all, 27, 45, 0, Masks.SOME);
        add("mixed, infinity in some rows", 3, every(101, Double.POSITIVE_INFINITY, 17), all, 27, 45, 0, Masks.SOME);
        add("mixed, far apart", 3, (i, n) -> 1e38 * n, all, 27, 45, 0, Masks.NONE);
        add("mixed, close together", 3, (i, n) -> 7 + 1e-6 * n, all, 27, 517, 0, Masks.NONE);
    }

    static List<Case> all() {
        return new SampleCases().cases;
    }

    private enum Masks {
        NONE,
        SOME,
        EMPTY
    }

    private static Draw every(int stride, double value, int offset) {
        return (i, n) -> i % stride == offset % stride ? value : n;
    }

    /** Row r has parameters r, r + n, ...; slots are assigned in turn, with rows between that have no slot or are padding. */
    private void add(
            String note,
            int top,
            Draw logits,
            List<Map<SamplerSetting, Double>> settings,
            int rows,
            int v,
            int b,
            Masks masks) {
        long words = masks == Masks.NONE ? 0 : Decoding.Sample.words(v);
        int slots = rows + 2;
        int some = note.hashCode();
        cases.add(new Case(
                new Decoding.Sample(top),
                List.of(
                        drawn(Spec.f32(rows, v), logits),
                        drawn(
                                Spec.f32(rows, SamplerSetting.COUNT),
                                (i, n) -> setting(
                                        settings.get(i / SamplerSetting.COUNT % settings.size()),
                                        SamplerSetting.values()[i % SamplerSetting.COUNT])),
                        drawn(Spec.i32(rows, 3), (i, n) -> i % 3 == 2 ? i : Math.rint(0x1p28 * n)),
                        listed(
                                Spec.i32(rows),
                                row -> row % 7 == 3
                                        ? Decoding.SKIPPED
                                        : row % 4 == 2 ? Decoding.NO_HISTORY : slots - 1 - row),
                        drawn(Spec.i32(slots, v), (i, n) -> n < 0.7 ? Decoding.NEVER : Math.rint(2 * n - 1)),
                        drawn(
                                Spec.i32(rows, b),
                                (i, n) -> i % 4 == 1 ? Decoding.NO_TOKEN : Math.min(v - 1, Math.abs(Math.rint(9 * n)))),
                        drawn(Spec.f32(rows, b), NORMAL),
                        drawn(
                                Spec.i32(rows, words),
                                (i, n) -> masks == Masks.EMPTY ? 0 : (int) (0x9E3779B9L * (i + some)))),
                note));
    }

    private static Input drawn(Spec spec, Draw draw) {
        return new Input(spec, new Source.Drawn(draw), false);
    }

    private static Input listed(Spec spec, IntUnaryOperator value) {
        int[] values = new int[(int) spec.shape().size()];
        Arrays.setAll(values, value);
        return new Input(spec, new Source.Listed(Arrays.stream(values).boxed().toList()), false);
    }
}
