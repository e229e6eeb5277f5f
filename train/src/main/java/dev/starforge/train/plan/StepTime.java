package dev.starforge.train.plan;

import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.train.Durations;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import dev.starforge.train.weights.TrainableModel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * Estimates the duration of a run from measured steps: of the whole model with random weights if it is small, or else of
 * models with one and two of its layers, where noise counts once for each layer. Steps with one and two batches separate
 * forward and backward from the update. The sequences are the first ones of the run, if its data is at hand: documents that
 * are shorter than the context cost less attention, and tokens that do not count in the loss no logits. Sequences are cut if
 * measuring would take more than seconds; then the cost of attention is underestimated.
 */
final class StepTime {
    private static final double LONG_ENOUGH = 0.25;
    private static final double WARM = 2;
    private static final double LONGEST = 8;
    private static final int FEWEST = 8;
    private static final int SHORTEST = 32;
    private static final int ROUNDS = 4;

    /** Models up to this number of weights are measured whole. */
    private static final long SMALL = 100_000_000;

    /** Length of the documents if those of the run are unknown. */
    private static final int DOCUMENT = 256;

    /** A forward pass takes a third of a step. */
    private static final double FORWARD = 3;

    private static final double MILLION = 1e6;
    private static final double DAY = 86_400;

    private final ModelSpec blueprint;
    private final Adaptation adapted;
    private final RunConfig config;
    private final Device device;
    private final LongSupplier nanoTime;
    private final List<List<TrainingExample>> sequences;

    /** @param sequences sequences of the run; empty for typical ones */
    StepTime(
            ModelSpec blueprint,
            Adaptation adapted,
            Device device,
            LongSupplier nanoTime,
            List<List<TrainingExample>> sequences) {
        this.blueprint = blueprint;
        this.adapted = adapted;
        this.config = adapted.config();
        this.device = device;
        this.nanoTime = nanoTime;
        this.sequences = sequences;
    }

    /** Seconds for forward and backward of a batch, and for the update of all parameters. */
    private record Parts(double pass, double update) {
        /**
         * Extrapolates to {@code layers} layers from one layer (this) and two layers ({@code two}). A layer takes at
         * least half of its share of the weights, so noise in the difference cannot make it free.
         */
        Parts extended(Parts two, int layers, double share) {
            return new Parts(
                    pass + (layers - 1) * Math.max(share / 2 * two.pass, two.pass - pass),
                    update + (layers - 1) * Math.max(0, two.update - update));
        }
    }

    /** Throughput, and a description of how it was measured. */
    record Rate(double tokensPerSecond, String text) {}

    /**
     * Describes the throughput and the duration of the run with {@code tokensOfEpoch} tokens per epoch and evaluations on
     * {@code evaluated} tokens; a warning if it takes days.
     */
    Preflight.Finding finding(long tokensOfEpoch, long evaluated) {
        Rate rate = rate();
        double tokens = tokensOfRun(tokensOfEpoch, tokensOfStep());
        int every = config.get(Keys.EVAL_STEPS);
        double evaluations = 1 + (every == 0 ? 0 : Math.floor(tokens / tokensOfStep() / every));
        return finding(rate.text, rate.tokensPerSecond, tokens, evaluations * evaluated / FORWARD);
    }

    /** Measures steps. */
    Rate rate() {
        int layers = blueprint.layers();
        boolean whole = layers <= 2 || weights(blueprint, device) <= SMALL;
        Batch batch;
        Parts parts;
        try (Slice slice = new Slice(whole ? layers : 2)) {
            batch = slice.warmUp();
            parts = whole ? time(batch, List.of(slice)).getFirst() : extended(batch, slice, layers);
        }
        double tokensOfStep = tokensOfStep();
        double perSecond = tokensOfStep / (tokensOfStep / batch.size() * parts.pass + parts.update);
        String text = String.format(
                Locale.ROOT,
                "%s on this %s: about %.1f tokens/s, measured with steps of %s on %d x %d tokens%s",
                parameters(weights(blueprint, device)),
                device.name(),
                perSecond,
                whole ? "the model" : "2 of " + layers + " layers",
                batch.sequences,
                batch.tokens,
                sequences.isEmpty() ? "" : " of the data");
        return new Rate(perSecond, text);
    }

    private Parts extended(Batch batch, Slice two, int layers) {
        try (Slice one = new Slice(1)) {
            one.step(batch, 1);
            List<Parts> both = time(batch, List.of(one, two));
            return both.getFirst().extended(both.getLast(), layers, share(two, one));
        }
    }

    /** A number of sequences, cut to a number of tokens. */
    private record Batch(int sequences, int tokens) {
        int size() {
            return sequences * tokens;
        }

        /** Doubles the length up to the context, and then the number of sequences. */
        Batch larger(int context, int mostSequences) {
            return tokens < context
                    ? new Batch(1, Math.min(2 * tokens, context))
                    : new Batch(Math.min(2 * sequences, mostSequences), context);
        }
    }

    /** The first tokens of a sequence of the run; random documents without one. */
    private List<TrainingExample> sequence(int index, int tokens, int vocabulary) {
        List<TrainingExample> cut = new ArrayList<>();
        int left = tokens;
        for (int s = index; left > 1; s++) {
            List<TrainingExample> whole =
                    sequences.isEmpty() ? List.of(random(s, vocabulary)) : sequences.get(s % sequences.size());
            for (TrainingExample example : whole) {
                int length = Math.min(left, example.ids().length);
                if (length > 1) {
                    int[] ids = Arrays.copyOf(example.ids(), length);
                    int[] labels = Arrays.copyOf(example.labels(), length);
                    labels[length - 1] = ids[length - 1]; // a cut document may have nothing else that counts
                    cut.add(new TrainingExample(ids, labels));
                    left -= length;
                }
            }
        }
        return cut;
    }

    private static TrainingExample random(int document, int vocabulary) {
        int[] ids = new int[DOCUMENT];
        Arrays.setAll(ids, i -> (int) (Philox.uniform(7, document, i) * vocabulary));
        return new TrainingExample(ids, ids);
    }

    private double tokensOfStep() {
        return (double) config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION) * config.get(Keys.CONTEXT);
    }

    /** The share of the larger slice's weights that one layer has. */
    private static double share(Slice two, Slice one) {
        return (double) (two.weights - one.weights) / two.weights;
    }

    /** The minimum over several alternating rounds of each slice, since disturbances only add time. */
    private List<Parts> time(Batch batch, List<Slice> slices) {
        double[] one = new double[slices.size()];
        double[] two = new double[slices.size()];
        Arrays.fill(one, Double.MAX_VALUE);
        Arrays.fill(two, Double.MAX_VALUE);
        double spent = 0;
        for (int round = 0; round < ROUNDS && (round < 2 || spent < LONGEST); round++) {
            for (int s = 0; s < one.length; s++) {
                double first = slices.get(s).step(batch, 1);
                double second = slices.get(s).step(batch, 2);
                one[s] = Math.min(one[s], first);
                two[s] = Math.min(two[s], second);
                spent += first + second;
            }
        }
        List<Parts> parts = new ArrayList<>();
        for (int s = 0; s < one.length; s++) {
            double pass = Math.min(one[s], Math.max(two[s] - one[s], two[s] / 3));
            parts.add(new Parts(pass, one[s] - pass));
        }
        return parts;
    }

    /** Tokens of the run: from {@code training.max_steps} if set, else from the epochs. */
    private double tokensOfRun(long tokensOfEpoch, double tokensOfStep) {
        double full = tokensOfEpoch == 0 ? tokensOfStep : Math.min(tokensOfStep, tokensOfEpoch);
        return config.get(Keys.MAX_STEPS) > 0
                ? config.get(Keys.MAX_STEPS) * full
                : tokensOfEpoch * (double) config.get(Keys.EPOCHS);
    }

    /** @param evaluation tokens that take as long as all evaluations */
    private Preflight.Finding finding(String rate, double perSecond, double tokens, double evaluation) {
        double seconds = (tokens == 0 ? MILLION : tokens + evaluation) / perSecond;
        double limit = 60 * config.get(Keys.MAX_MINUTES);
        if (tokens > 0 && limit > 0 && seconds > limit) {
            return new Preflight.Finding(
                    Preflight.Level.READY,
                    "time",
                    rate
                            + String.format(
                                    Locale.ROOT,
                                    "; training.max_minutes ends the run after %s, %.0f %% of its tokens",
                                    Durations.text(limit),
                                    100 * limit / seconds));
        }
        double days = seconds / DAY;
        String took = days > 2 ? "about " + Math.round(days) + " days" : "about " + Durations.text(seconds);
        if (tokens == 0) {
            return new Preflight.Finding(Preflight.Level.READY, "time", rate + "; a million tokens take " + took);
        }
        return new Preflight.Finding(
                days > 2 ? Preflight.Level.WARNING : Preflight.Level.READY,
                "time",
                rate
                        + String.format(
                                Locale.ROOT, "; %.2f million tokens and the evaluations take ", tokens / MILLION)
                        + took
                        + (days > 2
                                ? "; use a GPU, or a model of "
                                        + parameters((long) (weights(blueprint, device) / days))
                                        + ", which takes a day"
                                : ""));
    }

    /** Number of elements of all matrices. */
    static long weights(ModelSpec blueprint, Device device) {
        Scope shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope();
        return blueprint.tensors(shapes).values().stream()
                .filter(shape -> shape.rank() > 1)
                .mapToLong(Shape::size)
                .sum();
    }

    /** Formats a parameter count. */
    static String parameters(long weights) {
        return weights >= 1e9
                ? String.format(Locale.ROOT, "%.1fB", weights / 1e9)
                : weights >= 1e6
                        ? String.format(Locale.ROOT, "%.0fM", weights / 1e6)
                        : String.format(Locale.ROOT, "%.0fK", weights / 1e3);
    }

    /** Some layers of the model, ready for training. */
    private final class Slice implements AutoCloseable {
        private final Scope scope = new Scope(device);
        private final int vocabulary;
        private final long weights;
        private final Trainer trainer;

        Slice(int layers) {
            Scope shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope();
            try (ModelFiles files = blueprint.random(layers, config.quantization(), shapes)) {
                Map<String, Tensor> parameters = new LinkedHashMap<>();
                Model model = load(files, parameters);
                vocabulary = model.info().vocabSize();
                weights = files.tensors().stream()
                        .mapToLong(tensor -> tensor.shape().size())
                        .sum();
                trainer = new Trainer(
                        model,
                        parameters,
                        device,
                        adapted.precisionOfRun(),
                        adapted.fallback(line -> {}),
                        TrainerSettings.of(config, config.checkpointing()));
            } catch (RuntimeException failure) {
                scope.close();
                throw failure;
            }
        }

        private Model load(ModelFiles files, Map<String, Tensor> parameters) {
            if (!config.get(Keys.LORA)) {
                List<Parameter> parts = new ArrayList<>();
                Model model = files.load(scope, Precision.FLOAT32, parts);
                parts.forEach(part -> parameters.put(part.names().getFirst(), part.tensor()));
                return model;
            }
            LoraAdapter adapter = LoraAdapter.create(TrainableModel.lora(config, files.architecture()), 0, scope);
            Model model = files.quantized(config.quantization()).load(scope, adapted.precisionOfRun(), adapter);
            parameters.putAll(adapter.parameters());
            return model;
        }

        /** Runs steps until they reach full speed; returns the batch whose steps are long enough to measure. */
        Batch warmUp() {
            int context = config.get(Keys.CONTEXT);
            Batch batch = new Batch(1, Math.min(SHORTEST, context));
            step(batch, 1); // compiles kernels on a new GPU, which takes longer than all later steps
            double spent = 0;
            double seconds = 0;
            for (int steps = 0; spent < LONGEST && (steps < FEWEST || spent < WARM); steps++) {
                seconds = step(batch, 1);
                spent += seconds;
                if (seconds < LONG_ENOUGH || steps == 0) {
                    batch = batch.larger(context, config.get(Keys.BATCH));
                }
            }
            return batch;
        }

        double step(Batch batch, int batches) {
            List<TrainingExample> examples = new ArrayList<>();
            for (int s = 0; s < batch.sequences; s++) {
                examples.addAll(sequence(s, batch.tokens, vocabulary));
            }
            long began = nanoTime.getAsLong();
            trainer.step(Collections.nCopies(batches, examples), 0, 0);
            device.synchronize();
            return (nanoTime.getAsLong() - began) * 1e-9;
        }

        @Override
        public void close() {
            trainer.close();
            scope.close();
        }
    }
}
