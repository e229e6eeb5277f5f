package dev.starforge.train.eval;

import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
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
import java.util.Collections;
import java.util.List;
import java.util.OptionalDouble;
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

    /**
     * Texts that the sequences of a batch have in turn, each a token longer than the one before. An odd number, so that rows whose
     * distance is that of a kernel's tiles have different ones.
     */
    private static final int TEXTS = 3;

    /** Steps of a batch before its logits are compared: one that runs, one that is recorded, one that is replayed. */
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
            for (ModelFiles.TensorInfo tensor : files.tensors()) {
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
            generator.feed(ids(0, promptTokens));
            generator.synchronize();
            double prefill = since(start);
            int next = generator.next();
            double first = since(start);
            generator.reset();
            if (batch > 1) {
                return new Times(prefill, first, decodeTogether(), hostStep(generator, next));
            }
            if (depth > 0) {
                next = generator.nextGreedy(ids(0, depth));
            }
            start = nanoTime.getAsLong();
            for (int i = 0; i < genTokens; i++) {
                next = generator.nextGreedy(next);
            }
            return new Times(prefill, first, since(start), hostStep(generator, next));
        }
    }

    /** What a step of one token takes of the host until it is on its way: nothing is read, so nobody waits for the device. */
    private double hostStep(Generator generator, int token) {
        generator.reset();
        double[] seconds = new double[(int) Math.min(HOST_STEPS, context())];
        for (int i = 0; i < seconds.length; i++) {
            generator.synchronize();
            long start = nanoTime.getAsLong();
            generator.feedOne(token);
            seconds[i] = since(start);
        }
        generator.synchronize();
        Arrays.sort(seconds);
        return seconds[seconds.length / 2];
    }

    /** Seconds of decoding with so many sequences, whose texts before are their own. */
    private double decodeTogether() {
        try (Engine engine = engine()) {
            List<Engine.Sequence> texts = open(engine, Collections.nCopies(batch, ids(0, depth + 1)), 1);
            decode(engine, texts, WARM_UP);
            long start = nanoTime.getAsLong();
            decode(engine, texts, genTokens);
            return since(start);
        }
    }

    /** With room for what is timed, and for what is compared before: the size of a table of blocks is part of a recorded step. */
    private Engine engine() {
        int longest = Math.max(depth, CHECKED + TEXTS) + WARM_UP + 1 + genTokens;
        return new Engine(model, device, precision, fallback, batch * Math.ceilDiv(longest, Engine.BLOCK_SIZE));
    }

    /** Sequences that share nothing, of which so many tokens are pending. */
    private static List<Engine.Sequence> open(Engine engine, List<int[]> texts, int pending) {
        List<Engine.Sequence> opened = new ArrayList<>();
        for (int[] ids : texts) {
            Engine.Sequence text = engine.open(Engine.AdapterSlot.BASE, String.valueOf(opened.size()), ids);
            opened.add(text);
            if (ids.length > pending) {
                engine.step(List.of(new Engine.SequenceChunk(text, ids.length - pending, 0)));
            }
        }
        return opened;
    }

    private static void decode(Engine engine, List<Engine.Sequence> texts, int steps) {
        for (int step = 0; step < steps; step++) {
            int[] tokens = choose(engine, texts);
            for (int i = 0; i < tokens.length; i++) {
                texts.get(i).append(tokens[i]);
            }
        }
    }

    /** The step that is timed. */
    private static int[] choose(Engine engine, List<Engine.Sequence> texts) {
        List<Engine.RowSampling> greedy = texts.stream()
                .map(text -> new Engine.RowSampling(SamplingParams.GREEDY, text.length(), Decoding.NO_HISTORY))
                .toList();
        return engine.step(nextOf(texts), greedy, 0).tokens();
    }

    private static List<Engine.SequenceChunk> nextOf(List<Engine.Sequence> texts) {
        return texts.stream().map(text -> new Engine.SequenceChunk(text, 1, 1)).toList();
    }

    private double since(long start) {
        return (nanoTime.getAsLong() - start) / 1e9;
    }

    /** Some tokens of the vocabulary, always the same: so many of an endless text, from one of them on. */
    private int[] ids(int from, int count) {
        return IntStream.range(from, from + count)
                .map(i -> (int) ((i * 2654435761L >>> 7) % model.info().vocabSize()))
                .toArray();
    }

    /** Who is asked what is right; see {@link #LARGE}. */
    public static String oracle(Device device, long parameters) {
        return device.name().equals("cpu") || parameters < LARGE ? "reference" : "cpu";
    }

    /** About how long {@link #check} takes. */
    public double checkSeconds(String oracle, long parameters) {
        int tokens = texts().stream().mapToInt(ids -> ids.length).sum();
        return parameters * tokens * (oracle.equals("reference") ? REFERENCE_SECONDS : CPU_SECONDS);
    }

    /** What is compared: one text, or those that the sequences of a batch have. */
    private List<int[]> texts() {
        return IntStream.range(0, batch > 1 ? TEXTS : 1)
                .mapToObj(i -> ids(i * CHECKED * TEXTS, CHECKED + i))
                .toList();
    }

    /**
     * The largest difference of a logit from the oracle's, as a share of their range: a wrong answer is not worth timing. Those of
     * one sequence are compared, and those of all that are decoded together, each with its text alone on the oracle.
     *
     * @param replays how often the decode step of one sequence is repeated, to the same bits
     * @param load the same model on another device
     * @throws ModelException where the difference is too large, a repeated step gives other bits, or the step that is timed
     *     chooses another token than the likeliest
     */
    public Checked check(String oracle, int replays, ModelFiles files, Function<Scope, Model> load) {
        float[] alone = alone(replays, files.path());
        List<Decoded> together = batch > 1 ? together() : List.of();
        List<float[]> expected = expected(oracle, load);
        double bound = bound(files);
        double worst = 0;
        for (int i = 0; i < together.size(); i++) {
            String which = "sequence " + (i + 1) + " of " + batch;
            if (!isDeep(i)) {
                double difference = difference(together.get(i).logits, expected.get(i % TEXTS));
                require(files.path(), "logits of " + which, difference, oracle, bound);
                worst = Math.max(worst, difference);
            }
            requireLikeliest(files.path(), which, together.get(i));
        }
        double difference = difference(alone, expected.getFirst());
        require(files.path(), "logits", difference, oracle, bound);
        return new Checked(difference, batch > 1 ? OptionalDouble.of(worst) : OptionalDouble.empty(), crc(alone));
    }

    /**
     * What was found to be right.
     *
     * @param difference the largest of a logit of one sequence, as a share of their range
     * @param together the same of the sequences of a batch, where there is one
     * @param crc32 of the bits of that one sequence's logits, to compare runs by
     */
    public record Checked(double difference, OptionalDouble together, long crc32) {}

    private static double difference(float[] actual, float[] expected) {
        return Logits.maxAbsError(actual, expected) / Logits.range(expected);
    }

    private static void require(Path file, String what, double difference, String oracle, double bound) {
        if (!(difference <= bound)) { // or is NaN
            throw new ModelException(
                    file,
                    "bench: " + what + " differ from those of " + oracle + " by " + difference
                            + " of their range, expected at most " + bound);
        }
    }

    private double bound(ModelFiles files) {
        boolean rounded = precision.int8Activations()
                && files.tensors().stream()
                        .anyMatch(tensor -> ROUNDING.matcher(tensor.dtype()).matches());
        return rounded && device.name().equals("cpu")
                ? ROUNDED
                : precision.compute() == DType.F32 ? EXACT : SIXTEEN_BITS;
    }

    /** What the oracle says after each text. */
    private List<float[]> expected(String oracle, Function<Scope, Model> load) {
        Precision exact = oracle.equals("reference") ? precision : precision.withInt8Activations(false);
        try (Device reference = Selection.choose(oracle).backend().open(new DeviceOptions(0, 0, Path.of("")));
                Scope weights = new Scope(reference);
                Generator generator =
                        new Generator(load.apply(weights), reference, exact, Fallback.QUIET, CHECKED + TEXTS)) {
            List<float[]> rows = new ArrayList<>();
            for (int[] ids : texts()) {
                generator.reset();
                generator.feed(ids);
                rows.add(generator.logits());
            }
            return rows;
        }
    }

    /** Logits of one sequence: after a prefill, and one decode step that is repeated. */
    private float[] alone(int replays, Path file) {
        int[] ids = texts().getFirst();
        try (Generator generator = new Generator(model, device, precision, fallback, ids.length)) {
            generator.feed(Arrays.copyOf(ids, ids.length - 1));
            generator.feedOne(ids[ids.length - 1]);
            float[] logits = generator.logits();
            for (int i = 0; i < replays; i++) {
                generator.replay();
                if (!Arrays.equals(logits, generator.logits())) {
                    throw new ModelException(file, "bench: replay " + (i + 1) + " of a decode step gives other logits");
                }
            }
            return logits;
        }
    }

    /**
     * What a step says of a sequence: its logits, and the token that is chosen where the step is one that chooses, as those are
     * that are timed.
     */
    private record Decoded(float[] logits, int chosen) {}

    /** Whether a sequence is as long as those that are timed, so that tables are as wide; no oracle computes it. */
    private boolean isDeep(int sequence) {
        return depth > 0 && sequence == batch - 1;
    }

    /**
     * The sequences of a batch, the last {@link #RECORDED} tokens of each by steps as those that are timed: first by steps that
     * leave logits, then the same tokens again by steps that choose, which keep none.
     */
    private List<Decoded> together() {
        List<int[]> texts = IntStream.range(0, batch)
                .mapToObj(i -> isDeep(i) ? ids(0, depth + RECORDED) : texts().get(i % TEXTS))
                .toList();
        try (Engine engine = engine()) {
            List<Engine.Sequence> sequences = open(engine, texts, RECORDED);
            for (int step = 0; step < RECORDED; step++) {
                engine.step(nextOf(sequences));
            }
            int width = model.info().vocabSize();
            float[] all = device.floats(engine.logits());
            for (int i = 0; i < batch; i++) {
                int[] ids = texts.get(i);
                sequences.get(i).truncate(ids.length - RECORDED);
                sequences.get(i).append(Arrays.copyOfRange(ids, ids.length - RECORDED, ids.length));
            }
            int[] chosen = {};
            for (int step = 0; step < RECORDED; step++) {
                chosen = choose(engine, sequences);
            }
            List<Decoded> rows = new ArrayList<>();
            for (int i = 0; i < batch; i++) {
                rows.add(new Decoded(Arrays.copyOfRange(all, i * width, (i + 1) * width), chosen[i]));
            }
            return rows;
        }
    }

    private static void requireLikeliest(Path file, String which, Decoded decoded) {
        float[] logits = decoded.logits;
        int best = IntStream.range(0, logits.length)
                .reduce((a, b) -> logits[b] > logits[a] ? b : a)
                .orElseThrow();
        if (decoded.chosen != best) {
            throw new ModelException(
                    file,
                    "bench: " + which + " continues with token " + decoded.chosen
                            + ", expected the likeliest by its logits, " + best);
        }
    }

    private static long crc(float[] logits) {
        ByteBuffer bytes = ByteBuffer.allocate(Float.BYTES * logits.length);
        bytes.asFloatBuffer().put(logits);
        CRC32 crc = new CRC32();
        crc.update(bytes);
        return crc.getValue();
    }
}
