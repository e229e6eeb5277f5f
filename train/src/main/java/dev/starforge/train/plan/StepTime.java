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
 * Estimates the duration of a run from measured steps of the model itself, if it has at most two layers, or else of
 * models with one and two of its layers and random weights. Steps with one and two batches separate forward and
 * backward from the update. Sequences are shorter than the context if measuring would take more than seconds; then the
 * cost of attention, which grows with their length, is underestimated.
 */
final class StepTime {
    private static final double LONG_ENOUGH = 0.25;
    private static final double WARM = 2;
    private static final double LONGEST = 8;
    private static final int FEWEST = 8;
    private static final int SHORTEST = 32;
    private static final int ROUNDS = 4;
    private static final double MILLION = 1e6;
    private static final double DAY = 86_400;

    private final ModelSpec blueprint;
    private final Adaptation adapted;
    private final RunConfig config;
    private final Device device;
    private final LongSupplier nanoTime;

    StepTime(ModelSpec blueprint, Adaptation adapted, Device device, LongSupplier nanoTime) {
        this.blueprint = blueprint;
        this.adapted = adapted;
        this.config = adapted.config();
        this.device = device;
        this.nanoTime = nanoTime;
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
     * Describes the throughput and the duration of the run with {@code tokensOfEpoch} tokens per epoch; a warning if it
     * takes days.
     */
    Preflight.Finding finding(long tokensOfEpoch) {
        Rate rate = rate();
        return finding(rate.text, rate.tokensPerSecond, tokensOfRun(tokensOfEpoch, tokensOfStep()));
    }

    /** Measures steps. */
    Rate rate() {
        int layers = blueprint.layers();
        int measured = Math.min(2, layers);
        Shape batch;
        Parts parts;
        try (Slice slice = new Slice(measured);
                Slice one = new Slice(1)) {
            batch = slice.warmUp();
            one.step(batch, 1);
            List<Parts> both = time(batch, layers > measured ? List.of(one, slice) : List.of(slice));
            parts = layers > measured
                    ? both.getFirst().extended(both.getLast(), layers, share(slice, one))
                    : both.getFirst();
        }
        double tokensOfStep = tokensOfStep();
        double perSecond = tokensOfStep / (tokensOfStep / batch.size() * parts.pass + parts.update);
        String text = String.format(
                Locale.ROOT,
                "%s on this %s: about %.1f tokens/s, measured with steps of %s on %d x %d tokens",
                parameters(weights(blueprint, device)),
                device.name(),
                perSecond,
                layers > measured ? measured + " of " + layers + " layers" : "the model",
                batch.dim(0),
                batch.dim(1));
        return new Rate(perSecond, text);
    }

    private double tokensOfStep() {
        return (double) config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION) * config.get(Keys.CONTEXT);
    }

    /** The share of the larger slice's weights that one layer has. */
    private static double share(Slice two, Slice one) {
        return (double) (two.weights - one.weights) / two.weights;
    }

    /** The minimum over several alternating rounds of each slice, since disturbances only add time. */
    private List<Parts> time(Shape batch, List<Slice> slices) {
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

    private Preflight.Finding finding(String rate, double perSecond, double tokens) {
        double seconds = (tokens == 0 ? MILLION : tokens) / perSecond;
        double days = seconds / DAY;
        String took = days > 2 ? "about " + Math.round(days) + " days" : "about " + Durations.text(seconds);
        if (tokens == 0) {
            return new Preflight.Finding(Preflight.Level.READY, "time", rate + "; a million tokens take " + took);
        }
        return new Preflight.Finding(
                days > 2 ? Preflight.Level.WARNING : Preflight.Level.READY,
                "time",
                rate
                        + String.format(Locale.ROOT, "; %.2f million tokens take ", tokens / MILLION)
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
        Shape warmUp() {
            int context = config.get(Keys.CONTEXT);
            Shape batch = Shape.of(1, Math.min(SHORTEST, context));
            step(batch, 1); // compiles kernels on a new GPU, which takes longer than all later steps
            double spent = 0;
            double seconds = 0;
            for (int steps = 0; spent < LONGEST && (steps < FEWEST || spent < WARM); steps++) {
                seconds = step(batch, 1);
                spent += seconds;
                if (seconds < LONG_ENOUGH || steps == 0) {
                    batch = larger(batch, context);
                }
            }
            return batch;
        }

        /** Doubles the sequence length up to the context, and then the number of sequences. */
        private Shape larger(Shape batch, int context) {
            return batch.dim(1) < context
                    ? Shape.of(1, Math.min(2 * batch.dim(1), context))
                    : Shape.of(Math.min(2 * batch.dim(0), config.get(Keys.BATCH)), context);
        }

        double step(Shape batch, int batches) {
            int[] ids = new int[Math.toIntExact(batch.dim(1))];
            for (int i = 0; i < ids.length; i++) {
                ids[i] = (int) (Philox.uniform(7, 0, i) * vocabulary);
            }
            List<TrainingExample> examples =
                    Collections.nCopies(Math.toIntExact(batch.dim(0)), new TrainingExample(ids, ids));
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
