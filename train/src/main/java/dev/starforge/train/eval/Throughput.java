package dev.starforge.train.eval;

import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.generate.Generator;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.verify.Logits;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.ToDoubleFunction;
import java.util.regex.Pattern;

/**
 * The speed of a model on a device: prefill is bound by arithmetic, decode by memory, since every token reads all weights.
 *
 * @param promptTokens tokens of the prompt whose prefill is timed
 * @param genTokens tokens decoded
 * @param depth tokens in the context before those decoded; 0 for none
 */
public record Throughput(
        Model model,
        Device device,
        Precision precision,
        Fallback fallback,
        int promptTokens,
        int genTokens,
        int depth,
        LongSupplier nanoTime) {
    /** The largest difference of a logit, as a share of their range, that still counts as the same answer. */
    private static final double EXACT = 2e-3;

    /** The same where activations are rounded to 8 bits: some four times what was seen, 0.8 to 1.1 %. */
    private static final double ROUNDED = 5e-2;

    /** Types whose products round activations. */
    private static final Pattern ROUNDING = Pattern.compile("Q[4568]_.*|INT8_.*");

    /** Tokens compared with the reference: a prefill, and one decode step, which have kernels of their own. */
    private static final int CHECKED = 6;

    /** What the reference takes for a parameter and token. */
    private static final double REFERENCE_SECONDS = 8e-9;

    /** What one run took, in seconds. */
    public record Times(double prefill, double firstToken, double decode) {
        public static double median(List<Times> times, ToDoubleFunction<Times> part) {
            double[] sorted = times.stream().mapToDouble(part).sorted().toArray();
            return sorted[sorted.length / 2];
        }
    }

    /**
     * What a token costs: bytes of weights that decode reads, and FLOP of prefill's projections. Attention is not counted.
     */
    public record Work(double bytes, double flops) {
        public static Work of(ModelFiles files) {
            double bytes = 0;
            double elements = 0;
            double table = 0;
            boolean head = false;
            for (ModelFiles.Stored tensor : files.tensors()) {
                boolean embedding = tensor.name().matches(".*(token_embd|embed_tokens|wte).*");
                boolean output = tensor.name().matches("(output|lm_head)\\.weight");
                head |= output;
                if (embedding) {
                    table += tensor.bytes();
                } else {
                    bytes += tensor.bytes();
                    elements += output || tensor.shape().rank() < 2
                            ? 0
                            : tensor.shape().size();
                }
            }
            return new Work(head ? bytes : bytes + table, 2 * elements);
        }
    }

    /** Tokens of context that a run needs. */
    public int context() {
        return Math.max(promptTokens, depth) + genTokens;
    }

    public Times run() {
        try (Generator generator = new Generator(model, device, precision, fallback, context())) {
            long start = nanoTime.getAsLong();
            generator.feed(ids(promptTokens));
            generator.await();
            double prefill = since(start);
            int next = generator.next();
            double first = since(start);
            generator.rewind();
            if (depth > 0) {
                next = generator.best(ids(depth));
            }
            start = nanoTime.getAsLong();
            for (int i = 0; i < genTokens; i++) {
                next = generator.best(next);
            }
            return new Times(prefill, first, since(start));
        }
    }

    private double since(long start) {
        return (nanoTime.getAsLong() - start) / 1e9;
    }

    /** Some tokens of the vocabulary, always the same. */
    private int[] ids(int count) {
        int[] ids = new int[count];
        for (int i = 0; i < count; i++) {
            ids[i] = (int) ((i * 2654435761L >>> 7) % model.facts().vocabulary());
        }
        return ids;
    }

    /** About how long {@link #check} takes. */
    public static double checkSeconds(long parameters) {
        return parameters * CHECKED * REFERENCE_SECONDS;
    }

    /**
     * The largest difference of a logit from the reference device's, as a share of their range: a wrong answer is not worth
     * timing.
     *
     * @param load the same model on another device
     * @throws ModelException where the difference is too large
     */
    public double check(ModelFiles files, Function<Scope, Model> load) {
        int[] ids = ids(CHECKED);
        float[] actual;
        try (Generator generator = new Generator(model, device, precision, fallback, ids.length)) {
            generator.feed(Arrays.copyOf(ids, CHECKED - 1));
            generator.feedOne(ids[CHECKED - 1]);
            actual = generator.logits();
        }
        try (Device reference = Selection.choose("reference").backend().open(new DeviceOptions(0, 0, Path.of("")));
                Scope weights = new Scope(reference)) {
            try (Generator generator =
                    new Generator(load.apply(weights), reference, precision, Fallback.QUIET, ids.length)) {
                generator.feed(ids);
                float[] expected = generator.logits();
                double difference = Logits.maxAbsError(actual, expected) / Logits.range(expected);
                boolean rounded = precision.int8Activations()
                        && files.tensors().stream()
                                .anyMatch(tensor ->
                                        ROUNDING.matcher(tensor.dtype()).matches());
                double bound = rounded ? ROUNDED : EXACT;
                if (!(difference <= bound)) {
                    throw new ModelException(
                            files.path(),
                            "bench: logits differ from the reference by " + difference
                                    + " of their range, expected at most " + bound);
                }
                return difference;
            }
        }
    }
}
