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
 * Measures the speed of a model on a device: prefill is compute-bound, decode is memory-bound, since every token reads
 * all weights.
 *
 * @param promptTokens tokens of the prompt whose prefill is timed
 * @param genTokens tokens decoded
 * @param depth context length before the decoded tokens; 0 for none
 * @param batch sequences decoded in one batch, one token each per step
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
    /** Largest error of a logit, as a share of the logits' range, that counts as correct in float32. */
    private static final double F32_BOUND = 2e-3;

    /** The bound if activations are quantized to 8 bits: about four to five times the measured 0.8 to 1.1 %. */
    private static final double INT8_BOUND = 5e-2;

    /** The bound if activations have 16 bits, equal to that of `verify` for bf16. */
    private static final double HALF_PRECISION_BOUND = 2e-2;

    /**
     * Parameter count above which a device is compared with the CPU backend instead of the reference, which would take
     * minutes. The conformance suite compares the CPU with the reference for each operation. This check covers the
     * device's kernels at the measured shapes, in all layers, with the CPU's products in float32.
     */
    private static final long REFERENCE_MAX_PARAMETERS = 500_000_000;

    /** Number of steps whose host time is measured. */
    private static final int HOST_STEPS = 16;

    /** Number of steps until kernels are compiled and a step is captured. */
    private static final int WARM_UP = 2;

    /** Weight types whose products round activations. */
    private static final Pattern ROUNDING = Pattern.compile("Q[4568]_.*|INT8_.*");

    /** Tokens compared with the oracle: a prefill and one decode step, which use different kernels. */
    private static final int CHECKED_TOKENS = 6;

    /**
     * Number of different prompts in a batch, each one token longer than the one before. It is odd, so that rows at the
     * distance of a kernel's tile have different prompts.
     */
    private static final int PROMPTS = 3;

    /**
     * Steps of a batch before its logits are compared: one that runs eagerly, one that is captured, one that is
     * replayed.
     */
    private static final int CHECKED_STEPS = 3;

    /**
     * Seconds per parameter and token on the reference; {@code CPU_SECONDS} on the CPU backend. Both include loading.
     */
    private static final double REFERENCE_SECONDS = 8e-9;

    private static final double CPU_SECONDS = 1e-9;

    /** Seconds of one run. */
    public record ThroughputSample(double prefill, double firstToken, double decode, double hostStep) {
        public static double median(List<ThroughputSample> times, ToDoubleFunction<ThroughputSample> part) {
            double[] sorted = times.stream().mapToDouble(part).sorted().toArray();
            return sorted[sorted.length / 2];
        }
    }

    /**
     * The cost of a token: bytes of weights that decode reads, and FLOP of the prefill's projections. Attention is not
     * counted.
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

    /** Context length that a run needs. */
    public long context() {
        return (long) Math.max(promptTokens, depth) + genTokens;
    }

    public ThroughputSample run() {
        try (Generator generator = new Generator(model, device, precision, fallback, Math.toIntExact(context()))) {
            long start = nanoTime.getAsLong();
            generator.feed(ids(0, promptTokens));
            generator.synchronize();
            double prefill = since(start);
            int next = generator.next();
            double first = since(start);
            generator.reset();
            if (batch > 1) {
                return new ThroughputSample(prefill, first, timeBatchDecode(), hostStep(generator, next));
            }
            if (depth > 0) {
                next = generator.nextGreedy(ids(0, depth));
            }
            start = nanoTime.getAsLong();
            for (int i = 0; i < genTokens; i++) {
                next = generator.nextGreedy(next);
            }
            return new ThroughputSample(prefill, first, since(start), hostStep(generator, next));
        }
    }

    /** Median host time to enqueue a step of one token, without waiting for the device. */
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

    /** Seconds to decode {@code batch} sequences that share no prefix. */
    private double timeBatchDecode() {
        try (Engine engine = engine()) {
            List<Engine.Sequence> sequences = open(engine, Collections.nCopies(batch, ids(0, depth + 1)), 1);
            decode(engine, sequences, WARM_UP);
            long start = nanoTime.getAsLong();
            decode(engine, sequences, genTokens);
            return since(start);
        }
    }

    /**
     * An engine with enough blocks for both the timed and the compared steps, since the size of the block table is part
     * of a captured step.
     */
    private Engine engine() {
        int longest = Math.max(depth, CHECKED_TOKENS + PROMPTS) + WARM_UP + 1 + genTokens;
        return new Engine(model, device, precision, fallback, batch * Math.ceilDiv(longest, Engine.BLOCK_SIZE));
    }

    /** Opens sequences that share no prefix, with {@code pending} tokens not yet computed. */
    private static List<Engine.Sequence> open(Engine engine, List<int[]> prompts, int pending) {
        List<Engine.Sequence> opened = new ArrayList<>();
        for (int[] ids : prompts) {
            Engine.Sequence sequence = engine.open(Engine.AdapterSlot.BASE, String.valueOf(opened.size()), ids);
            opened.add(sequence);
            if (ids.length > pending) {
                engine.step(List.of(new Engine.SequenceChunk(sequence, ids.length - pending, 0)));
            }
        }
        return opened;
    }

    private static void decode(Engine engine, List<Engine.Sequence> sequences, int steps) {
        for (int step = 0; step < steps; step++) {
            int[] tokens = sampleGreedy(engine, sequences);
            for (int i = 0; i < tokens.length; i++) {
                sequences.get(i).append(tokens[i]);
            }
        }
    }

    /** The timed step: computes and samples the next token of each sequence. */
    private static int[] sampleGreedy(Engine engine, List<Engine.Sequence> sequences) {
        List<Engine.RowSampling> greedy = sequences.stream()
                .map(sequence -> new Engine.RowSampling(SamplingParams.GREEDY, sequence.length(), Decoding.NO_HISTORY))
                .toList();
        return engine.step(nextOf(sequences), greedy, 0).tokens();
    }

    private static List<Engine.SequenceChunk> nextOf(List<Engine.Sequence> sequences) {
        return sequences.stream()
                .map(sequence -> new Engine.SequenceChunk(sequence, 1, 1))
                .toList();
    }

    private double since(long start) {
        return (nanoTime.getAsLong() - start) / 1e9;
    }

    /** Deterministic token ids: {@code count} tokens of an endless sequence, starting at {@code from}. */
    private int[] ids(int from, int count) {
        return IntStream.range(from, from + count)
                .map(i -> (int) ((i * 2654435761L >>> 7) % model.info().vocabSize()))
                .toArray();
    }

    /** The backend to compare with; see {@link #REFERENCE_MAX_PARAMETERS}. */
    public static String oracle(Device device, long parameters) {
        return device.name().equals("cpu") || parameters < REFERENCE_MAX_PARAMETERS ? "reference" : "cpu";
    }

    /** Estimated seconds of {@link #check}. */
    public double checkSeconds(String oracle, long parameters) {
        int tokens = prompts().stream().mapToInt(ids -> ids.length).sum();
        return parameters * tokens * (oracle.equals("reference") ? REFERENCE_SECONDS : CPU_SECONDS);
    }

    /** The compared prompts: one, or those of a batch. */
    private List<int[]> prompts() {
        return IntStream.range(0, batch > 1 ? PROMPTS : 1)
                .mapToObj(i -> ids(i * CHECKED_TOKENS * PROMPTS, CHECKED_TOKENS + i))
                .toList();
    }

    /**
     * Compares logits with the oracle's, since a wrong model is not worth timing. Compares one sequence, and every
     * sequence of a batch with the same prompt computed alone on the oracle.
     *
     * @param replays number of repetitions of a decode step, which must be bit-identical
     * @param load loads the same model on another device
     * @throws ModelException if the error is too large, a repeated step differs, or the timed step does not choose the
     *     most likely token
     */
    public Checked check(String oracle, int replays, ModelFiles files, Function<Scope, Model> load) {
        float[] alone = singleSequenceLogits(replays, files.path());
        List<Decoded> together = batch > 1 ? decodeBatch() : List.of();
        List<float[]> expected = expected(oracle, load);
        double bound = bound(files);
        double worst = 0;
        for (int i = 0; i < together.size(); i++) {
            String which = "sequence " + (i + 1) + " of " + batch;
            if (!isDeep(i)) {
                double difference = difference(together.get(i).logits, expected.get(i % PROMPTS));
                require(files.path(), "logits of " + which, difference, oracle, bound);
                worst = Math.max(worst, difference);
            }
            requireArgmax(files.path(), which, together.get(i));
        }
        double difference = difference(alone, expected.getFirst());
        require(files.path(), "logits", difference, oracle, bound);
        return new Checked(difference, batch > 1 ? OptionalDouble.of(worst) : OptionalDouble.empty(), crc(alone));
    }

    /**
     * Result of a successful check.
     *
     * @param difference largest error of a logit of one sequence, as a share of the logits' range
     * @param together the same for the sequences of a batch, if there is one
     * @param crc32 checksum of the sequence's logits, to compare runs
     */
    public record Checked(double difference, OptionalDouble together, long crc32) {}

    private static double difference(float[] actual, float[] expected) {
        return Logits.maxAbsError(actual, expected) / Logits.range(expected);
    }

    private static void require(Path file, String what, double difference, String oracle, double bound) {
        if (!(difference <= bound)) { // or is NaN
            throw new ModelException(
                    file,
                    "bench: " + what + " differ from " + oracle + " by " + difference
                            + " of their range, expected at most " + bound);
        }
    }

    private double bound(ModelFiles files) {
        boolean rounded = precision.int8Activations()
                && files.tensors().stream()
                        .anyMatch(tensor -> ROUNDING.matcher(tensor.dtype()).matches());
        return rounded && device.name().equals("cpu")
                ? INT8_BOUND
                : precision.compute() == DType.F32 ? F32_BOUND : HALF_PRECISION_BOUND;
    }

    /** The oracle's logits after each prompt. */
    private List<float[]> expected(String oracle, Function<Scope, Model> load) {
        Precision exact = oracle.equals("reference") ? precision : precision.withInt8Activations(false);
        try (Device reference = Selection.choose(oracle).backend().open(new DeviceOptions(0, 0, Path.of("")));
                Scope weights = new Scope(reference);
                Generator generator = new Generator(
                        load.apply(weights), reference, exact, Fallback.QUIET, CHECKED_TOKENS + PROMPTS)) {
            List<float[]> rows = new ArrayList<>();
            for (int[] ids : prompts()) {
                generator.reset();
                generator.feed(ids);
                rows.add(generator.logits());
            }
            return rows;
        }
    }

    /** Logits of one sequence after a prefill and a repeated decode step. */
    private float[] singleSequenceLogits(int replays, Path file) {
        int[] ids = prompts().getFirst();
        try (Generator generator = new Generator(model, device, precision, fallback, ids.length)) {
            generator.feed(Arrays.copyOf(ids, ids.length - 1));
            generator.feedOne(ids[ids.length - 1]);
            float[] logits = generator.logits();
            for (int i = 0; i < replays; i++) {
                generator.replay();
                if (!Arrays.equals(logits, generator.logits())) {
                    throw new ModelException(file, "bench: replay " + (i + 1) + " of a decode step changes the logits");
                }
            }
            return logits;
        }
    }

    /** The result of a step for one sequence: its logits, and the token that the timed kind of step chooses. */
    private record Decoded(float[] logits, int chosen) {}

    /**
     * Returns true for the one sequence as long as the timed ones, which makes block tables as wide. The oracle does
     * not compute it.
     */
    private boolean isDeep(int sequence) {
        return depth > 0 && sequence == batch - 1;
    }

    /**
     * Runs the sequences of a batch. The last {@link #CHECKED_STEPS} tokens of each are computed twice: by steps that return
     * logits, and again by steps that sample and return no logits.
     */
    private List<Decoded> decodeBatch() {
        List<int[]> prompts = IntStream.range(0, batch)
                .mapToObj(i ->
                        isDeep(i) ? ids(0, depth + CHECKED_STEPS) : prompts().get(i % PROMPTS))
                .toList();
        try (Engine engine = engine()) {
            List<Engine.Sequence> sequences = open(engine, prompts, CHECKED_STEPS);
            for (int step = 0; step < CHECKED_STEPS; step++) {
                engine.step(nextOf(sequences));
            }
            int width = model.info().vocabSize();
            float[] all = device.floats(engine.logits());
            for (int i = 0; i < batch; i++) {
                int[] ids = prompts.get(i);
                sequences.get(i).truncate(ids.length - CHECKED_STEPS);
                sequences.get(i).append(Arrays.copyOfRange(ids, ids.length - CHECKED_STEPS, ids.length));
            }
            int[] chosen = {};
            for (int step = 0; step < CHECKED_STEPS; step++) {
                chosen = sampleGreedy(engine, sequences);
            }
            List<Decoded> rows = new ArrayList<>();
            for (int i = 0; i < batch; i++) {
                rows.add(new Decoded(Arrays.copyOfRange(all, i * width, (i + 1) * width), chosen[i]));
            }
            return rows;
        }
    }

    private static void requireArgmax(Path file, String which, Decoded decoded) {
        float[] logits = decoded.logits;
        int best = IntStream.range(0, logits.length)
                .reduce((a, b) -> logits[b] > logits[a] ? b : a)
                .orElseThrow();
        if (decoded.chosen != best) {
            throw new ModelException(
                    file,
                    "bench: " + which + " continues with token " + decoded.chosen
                            + ", expected the token with the largest logit, " + best);
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
