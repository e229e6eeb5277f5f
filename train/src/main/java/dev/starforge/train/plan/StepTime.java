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
 * How long a run will take, from steps that are run: those of the model itself where it has two layers at most, else of one
 * and of two of its layers with random weights, from which the time of all follows. A step with one batch and one with two
 * tell the passes from the update. Sequences are shorter than the context where that would take more than seconds, and then
 * attention, which grows with them, is counted for less than it will take.
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
         * What so many layers take, when this is one layer and {@code two} are two. A layer takes at least half of its share
         * of the two's weights, however a busy machine disturbs the difference.
         */
        Parts extended(Parts two, int layers, double share) {
            return new Parts(
                    pass + (layers - 1) * Math.max(share / 2 * two.pass, two.pass - pass),
                    update + (layers - 1) * Math.max(0, two.update - update));
        }
    }

    /** Tokens a second, and how that was measured. */
    record Rate(double tokensPerSecond, String text) {}

    /** The rate, and how long so many tokens of one epoch take; a warning where that is days. */
    Preflight.Finding finding(long tokensOfEpoch) {
        Rate rate = rate();
        return finding(rate.text, rate.tokensPerSecond, tokensOfRun(tokensOfEpoch, tokensOfStep()));
    }

    /** Runs some steps. */
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

    /** How much of the larger slice's weights one layer has. */
    private static double share(Slice two, Slice one) {
        return (double) (two.weights - one.weights) / two.weights;
    }

    /** Of each slice the least of some rounds, in turn, since whatever disturbs makes them longer and disturbs all. */
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

    /** Steps, where they are set, are done however many epochs that takes. */
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

    /** Elements of all matrices. */
    static long weights(ModelSpec blueprint, Device device) {
        Scope shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope();
        return blueprint.tensors(shapes).values().stream()
                .filter(shape -> shape.rank() > 1)
                .mapToLong(Shape::size)
                .sum();
    }

    /** A size as people say it. */
    static String parameters(long weights) {
        return weights >= 1e9
                ? String.format(Locale.ROOT, "%.1fB", weights / 1e9)
                : weights >= 1e6
                        ? String.format(Locale.ROOT, "%.0fM", weights / 1e6)
                        : String.format(Locale.ROOT, "%.0fK", weights / 1e3);
    }

    /** Some layers of the model, ready to be trained. */
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

        /** Runs steps until they are at full speed; the batch with which they take long enough to be timed. */
        Shape warmUp() {
            int context = config.get(Keys.CONTEXT);
            Shape batch = Shape.of(1, Math.min(SHORTEST, context));
            step(batch, 1); // on a new GPU it compiles kernels, longer than all that follows
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

        /** Longer sequences up to the context, and then more of them. */
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
