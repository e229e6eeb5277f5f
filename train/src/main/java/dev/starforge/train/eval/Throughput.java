package dev.starforge.train.eval;

import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampling;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.train.verify.Logits;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.ToDoubleFunction;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.zip.CRC32;

/**
 * The speed of a model on a device: prefill is bound by arithmetic, decode by memory, since every token reads all weights.
 *
 * @param promptTokens tokens of the prompt whose prefill is timed
 * @param genTokens tokens decoded
 * @param depth tokens in the context before those decoded; 0 for none
 * @param batch sequences that are decoded side by side, a token of each in a step
 */
public record Throughput(
        Model model,
        Device device,
        Precision precision,
        Fallback fallback,
        int promptTokens,
        int genTokens,
        int depth,
        int batch,
        LongSupplier nanoTime) {
    /** The largest difference of a logit, as a share of their range, that still counts as the same answer. */
    private static final double EXACT = 2e-3;

    /** The same where activations are rounded to 8 bits: some four times what was seen, 0.8 to 1.1 %. */
    private static final double ROUNDED = 5e-2;

    /** The same where activations are of 16 bits: what `verify` allows bf16. */
    private static final double SIXTEEN_BITS = 2e-2;

    /**
     * Parameters above which another device is compared with the CPU instead of the reference, which would take minutes. The
     * suite holds the CPU to the reference, operation by operation; what is compared here is the device's kernels at the
     * shapes that are timed, in all layers, with the CPU's products exact.
     */
    private static final long LARGE = 500_000_000;

    /** Steps whose time on the host is taken. */
    private static final int HOST_STEPS = 16;

    /** Steps after which kernels are compiled and a step is recorded. */
    private static final int WARM_UP = 2;

    /** Types whose products round activations. */
    private static final Pattern ROUNDING = Pattern.compile("Q[4568]_.*|INT8_.*");

    /** Tokens compared with the reference: a prefill, and one decode step, which have kernels of their own. */
    private static final int CHECKED = 6;

    /** Steps of a batch that are compared: one that runs, one that is recorded, one that is replayed. */
    private static final int RECORDED = 3;

    /** What the reference takes for a parameter and token, and what the CPU takes, loading included. */
    private static final double REFERENCE_SECONDS = 8e-9;

    private static final double CPU_SECONDS = 1e-9;

    /** What one run took, in seconds. */
    public record Times(double prefill, double firstToken, double decode, double hostStep) {
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
    public long context() {
        return (long) Math.max(promptTokens, depth) + genTokens;
    }

    public Times run() {
        try (Generator generator = new Generator(model, device, precision, fallback, Math.toIntExact(context()))) {
            long start = nanoTime.getAsLong();
            generator.feed(ids(promptTokens));
            generator.await();
            double prefill = since(start);
            int next = generator.next();
            double first = since(start);
            generator.rewind();
            if (batch > 1) {
                return new Times(prefill, first, decodeTogether(), hostStep(generator, next));
            }
            if (depth > 0) {
                next = generator.best(ids(depth));
            }
            start = nanoTime.getAsLong();
            for (int i = 0; i < genTokens; i++) {
                next = generator.best(next);
            }
            return new Times(prefill, first, since(start), hostStep(generator, next));
        }
    }

    /** What a step of one token takes of the host until it is on its way: nothing is read, so nobody waits for the device. */
    private double hostStep(Generator generator, int token) {
        generator.rewind();
        double[] seconds = new double[(int) Math.min(HOST_STEPS, context())];
        for (int i = 0; i < seconds.length; i++) {
            generator.await();
            long start = nanoTime.getAsLong();
            generator.feedOne(token);
            seconds[i] = since(start);
        }
        generator.await();
        Arrays.sort(seconds);
        return seconds[seconds.length / 2];
    }

    /** Seconds of decoding with so many sequences, whose texts before are their own. */
    private double decodeTogether() {
        int blocks = batch * Math.ceilDiv(depth + WARM_UP + 1 + genTokens, Engine.BLOCK);
        try (Engine engine = new Engine(model, device, precision, fallback, blocks)) {
            List<Engine.Sequence> texts = new ArrayList<>();
            for (int i = 0; i < batch; i++) {
                Engine.Sequence text = engine.open(Engine.Adapter.BASE, String.valueOf(i), ids(depth + 1));
                texts.add(text);
                if (depth > 0) {
                    engine.step(List.of(new Engine.Piece(text, depth, 0)));
                }
            }
            decode(engine, texts, WARM_UP);
            long start = nanoTime.getAsLong();
            decode(engine, texts, genTokens);
            return since(start);
        }
    }

    private static void decode(Engine engine, List<Engine.Sequence> texts, int steps) {
        List<Engine.Piece> pieces =
                texts.stream().map(text -> new Engine.Piece(text, 1, 1)).toList();
        for (int step = 0; step < steps; step++) {
            int[] tokens = engine.step(
                            pieces,
                            texts.stream()
                                    .map(text -> new Engine.Choice(Sampling.GREEDY, text.length(), Decoding.NO_HISTORY))
                                    .toList(),
                            0)
                    .tokens();
            for (int i = 0; i < tokens.length; i++) {
                texts.get(i).add(tokens[i]);
            }
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

    /** Who is asked what is right; see {@link #LARGE}. */
    public static String oracle(Device device, long parameters) {
        return device.name().equals("cpu") || parameters < LARGE ? "reference" : "cpu";
    }

    /** About how long {@link #check} takes. */
    public static double checkSeconds(String oracle, long parameters) {
        return parameters * CHECKED * (oracle.equals("reference") ? REFERENCE_SECONDS : CPU_SECONDS);
    }

    /**
     * The largest difference of a logit from the oracle's, as a share of their range: a wrong answer is not worth timing. Those of
     * one sequence are compared, and those of all that are decoded together.
     *
     * @param replays how often the decode step of one sequence is repeated, to the same bits
     * @param load the same model on another device
     * @throws ModelException where the difference is too large, or a repeated step gives other bits
     */
    public Checked check(String oracle, int replays, ModelFiles files, Function<Scope, Model> load) {
        int[] ids = ids(CHECKED);
        List<float[]> actual = new ArrayList<>(batch > 1 ? together(ids) : List.of());
        try (Generator generator = new Generator(model, device, precision, fallback, ids.length)) {
            generator.feed(Arrays.copyOf(ids, CHECKED - 1));
            generator.feedOne(ids[CHECKED - 1]);
            actual.add(generator.logits());
            for (int i = 0; i < replays; i++) {
                generator.replay();
                if (!Arrays.equals(actual.getLast(), generator.logits())) {
                    throw new ModelException(
                            files.path(), "bench: replay " + (i + 1) + " of a decode step gives other logits");
                }
            }
        }
        try (Device reference = Selection.choose(oracle).backend().open(new DeviceOptions(0, 0, Path.of("")));
                Scope weights = new Scope(reference)) {
            Precision exact = oracle.equals("reference") ? precision : precision.withInt8Activations(false);
            try (Generator generator =
                    new Generator(load.apply(weights), reference, exact, Fallback.QUIET, ids.length)) {
                generator.feed(ids);
                float[] expected = generator.logits();
                double difference = actual.stream()
                        .mapToDouble(each -> Logits.maxAbsError(each, expected) / Logits.range(expected))
                        .reduce(0, Math::max); // of which NaN is the largest
                boolean rounded = precision.int8Activations()
                        && files.tensors().stream()
                                .anyMatch(tensor ->
                                        ROUNDING.matcher(tensor.dtype()).matches());
                double bound = rounded && device.name().equals("cpu")
                        ? ROUNDED
                        : precision.compute() == DType.F32 ? EXACT : SIXTEEN_BITS;
                if (!(difference <= bound)) {
                    throw new ModelException(
                            files.path(),
                            "bench: logits differ from those of " + oracle + " by " + difference
                                    + " of their range, expected at most " + bound);
                }
                return new Checked(difference, crc(actual.getLast()));
            }
        }
    }

    /**
     * What was found to be right.
     *
     * @param difference the largest of a logit, as a share of their range
     * @param crc32 of the logits' bits, to compare runs by
     */
    public record Checked(double difference, long crc32) {}

    private static long crc(float[] logits) {
        ByteBuffer bytes = ByteBuffer.allocate(Float.BYTES * logits.length);
        bytes.asFloatBuffer().put(logits);
        CRC32 crc = new CRC32();
        crc.update(bytes);
        return crc.getValue();
    }

    /** Logits after the same tokens in all sequences of a batch, the last {@link #RECORDED} of them by steps as those that are timed. */
    private List<float[]> together(int[] ids) {
        int blocks = batch * Math.ceilDiv(ids.length, Engine.BLOCK);
        try (Engine engine = new Engine(model, device, precision, fallback, blocks)) {
            List<Engine.Sequence> texts = new ArrayList<>();
            for (int i = 0; i < batch; i++) {
                Engine.Sequence text = engine.open(Engine.Adapter.BASE, String.valueOf(i), ids);
                texts.add(text);
                engine.step(List.of(new Engine.Piece(text, ids.length - RECORDED, 0)));
            }
            for (int step = 0; step < RECORDED; step++) {
                engine.step(
                        texts.stream().map(text -> new Engine.Piece(text, 1, 1)).toList());
            }
            Tensor logits = engine.logits();
            int width = model.facts().vocabulary();
            float[] all = device.floats(logits);
            return IntStream.range(0, batch)
                    .mapToObj(i -> Arrays.copyOfRange(all, i * width, (i + 1) * width))
                    .toList();
        }
    }
}
