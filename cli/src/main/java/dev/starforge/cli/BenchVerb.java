package dev.starforge.cli;

import dev.starforge.data.Jackson;
import dev.starforge.model.Generator;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.ModelFiles;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.DeviceOptions;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Limits;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Selection;
import dev.starforge.train.run.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        sortOptions = false,
        description = {
            "Times a model: tokens a second of a prompt and of generated text, beside what the machine can do at best.",
            "",
            "A prompt is bound by arithmetic: its rate stands beside that of multiply-adds in registers. Generated text is "
                    + "bound by memory, since every token reads all weights: its rate stands beside that of reading as many "
                    + "bytes. Attention is left out of both counts.",
            "",
            "Before it times, logits are compared with the reference device's; a wrong answer is not timed. Figures are "
                    + "medians over the repeats, after one run to warm up.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge bench model.gguf",
            "  starforge bench RUN                                        (what train wrote, on its base)",
            "  starforge bench model.gguf --prompt-tokens 512 --gen-tokens 64 --threads 2 --repeat 5 --json",
            "  starforge bench --random llama-3.2-1b --format Q4_K_M      (no file needed)",
            "  starforge bench --random starcoder2-3b --depth 4096        (with a long text before)",
        })
final class BenchVerb implements Callable<Integer> {
    /** The largest difference of a logit, in parts of their range, that still counts as the same answer of a fast path. */
    private static final double EXACT = 2e-3;

    /** The same where activations are rounded to 8 bits: some four times what was seen, 0.8 to 1.1 %. */
    private static final double ROUNDED = 5e-2;

    /** Types whose products round activations. */
    private static final Pattern ROUNDING = Pattern.compile("Q[456]_.*");

    private static final long MOST_READ = 2L << 30;

    /** Tokens compared with the reference: a prompt, which many tokens' kernels compute, and one more, which a single's do. */
    private static final int CHECKED = 6;

    /** What the reference takes for a parameter and token. */
    private static final double REFERENCE_SECONDS = 8e-9;

    private final LongSupplier nanoTime;

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Mixin
    private ModelFlags models;

    @ArgGroup(multiplicity = "1")
    private What what;

    /** The weights to time. */
    private static final class What {
        @Parameters(index = "0", paramLabel = "MODEL", description = ModelFlags.KINDS)
        private String positional;

        @Option(names = "--model", paramLabel = "MODEL", description = "The same.")
        private String named;

        @Option(
                names = "--random",
                paramLabel = "SHAPE",
                completionCandidates = Shapes.class,
                description = "Random weights of a known shape, without any file: ${COMPLETION-CANDIDATES}.")
        private String random;

        Optional<String> model() {
            return Optional.ofNullable(positional).or(() -> Optional.ofNullable(named));
        }
    }

    private static final class Shapes implements Iterable<String> {
        @Override
        public Iterator<String> iterator() {
            return ModelFiles.presets().iterator();
        }
    }

    @Option(
            names = "--format",
            paramLabel = "FORMAT",
            description =
                    "What random weights are stored in, mixed as llama-quantize mixes types: F32, F16, BF16, Q8_0, "
                            + "Q6_K, Q5_K_M, Q5_0, Q4_K_M, Q4_1, Q4_0 or NF4. Default: Q4_0.")
    private String format;

    @Option(
            names = "--prompt-tokens",
            defaultValue = "512",
            paramLabel = "N",
            description = "Tokens of the prompt. Default: ${DEFAULT-VALUE}.")
    private int promptTokens;

    @Option(
            names = "--gen-tokens",
            defaultValue = "64",
            paramLabel = "N",
            description = "Tokens generated after it. Default: ${DEFAULT-VALUE}.")
    private int genTokens;

    @Option(
            names = "--depth",
            defaultValue = "0",
            paramLabel = "N",
            description = "Tokens in the context before the generated ones. Default: ${DEFAULT-VALUE}.")
    private int depth;

    @Option(
            names = "--repeat",
            defaultValue = "3",
            paramLabel = "R",
            description = "Runs whose median counts. Default: ${DEFAULT-VALUE}.")
    private int repeat;

    @Option(
            names = "--no-check",
            description = "Do not compare with the reference device, which takes minutes for large models.")
    private boolean unchecked;

    @Option(
            names = "--no-limits",
            description = "Do not measure what the machine can do at best, which takes some seconds.")
    private boolean unlimited;

    @Option(names = "--json", description = "For machines: one object.")
    private boolean json;

    BenchVerb() {
        this(System::nanoTime);
    }

    BenchVerb(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
    }

    /** What one repeat took, in seconds. */
    private record Times(double prefill, double firstToken, double decode) {}

    @Override
    public Integer call() {
        if (promptTokens < 1 || genTokens < 1 || repeat < 1 || depth < 0) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--prompt-tokens, --gen-tokens and --repeat: expected at least 1, --depth: at least 0");
        }
        if (what.model().isPresent() && format != null) {
            throw new ParameterException(spec.commandLine(), "--format is for --random; a file has its own");
        }
        Optional<TunedModel> tuned = what.model().map(models::find);
        try (ModelFiles files = tuned.map(found -> ModelFiles.open(found.model()))
                        .orElseGet(() -> ModelFiles.random(what.random, format == null ? "Q4_0" : format));
                DeviceFlags.Opened opened = flags.openFast();
                Scope weights = new Scope(opened.device())) {
            long start = nanoTime.getAsLong();
            Model loaded = load(tuned, files, weights);
            opened.device().synchronize();
            double load = since(start);
            long room = (long) Math.max(promptTokens, depth) + genTokens;
            if (room > loaded.facts().context()) {
                throw new ParameterException(
                        spec.commandLine(),
                        room + " tokens exceed the model's context of "
                                + loaded.facts().context());
            }
            Optional<Double> difference =
                    unchecked ? Optional.empty() : Optional.of(check(tuned, files, loaded, opened));
            Work work = Work.of(files);
            List<Times> times = new ArrayList<>();
            for (int i = 0; i <= repeat; i++) {
                Times now = run(loaded, opened.device());
                if (i > 0) {
                    times.add(now);
                    progress(i, now);
                }
            }
            Optional<Limits> limits =
                    unlimited ? Optional.empty() : opened.device().limits(Math.min(MOST_READ, weights.usedBytes()));
            report(files, opened, load, weights.usedBytes(), work, times, limits, difference);
        }
        return 0;
    }

    private Model load(Optional<TunedModel> tuned, ModelFiles files, Scope weights) {
        return tuned.map(found -> ModelFlags.load(found, files, weights, flags.precision()))
                .orElseGet(() -> files.load(weights, flags.precision()));
    }

    private void progress(int done, Times now) {
        PrintWriter err = spec.commandLine().getErr();
        err.printf(
                "%d of %d: prompt %.1f tokens/s, generated %.1f tokens/s%n",
                done, repeat, promptTokens / now.prefill(), genTokens / now.decode());
        err.flush();
    }

    private double since(long start) {
        return (nanoTime.getAsLong() - start) / 1e9;
    }

    private Times run(Model loaded, Device device) {
        int room = Math.max(promptTokens, depth) + genTokens;
        try (Generator generator = new Generator(loaded, device, flags.precision(), flags.fallback(), room)) {
            long start = nanoTime.getAsLong();
            generator.feed(ids(promptTokens, loaded));
            generator.await();
            double prefill = since(start);
            int next = generator.next();
            double first = since(start);
            generator.rewind();
            if (depth > 0) {
                generator.feed(ids(depth, loaded));
                next = generator.next();
            }
            start = nanoTime.getAsLong();
            for (int i = 0; i < genTokens; i++) {
                generator.feedOne(next);
                next = generator.next();
            }
            return new Times(prefill, first, since(start));
        }
    }

    /** Some tokens of the vocabulary, always the same. */
    private static int[] ids(int count, Model loaded) {
        int[] ids = new int[count];
        for (int i = 0; i < count; i++) {
            ids[i] = (int) ((i * 2654435761L >>> 7) % loaded.facts().vocabulary());
        }
        return ids;
    }

    /** The largest difference of a logit from the reference's, in parts of their range. */
    private double check(Optional<TunedModel> tuned, ModelFiles files, Model loaded, DeviceFlags.Opened opened) {
        long parameters = parameters(files);
        int[] ids = ids(CHECKED, loaded);
        double estimate = parameters * ids.length * REFERENCE_SECONDS;
        if (estimate > 2) {
            PrintWriter err = spec.commandLine().getErr();
            err.printf("comparing with the reference, some %.0f s; --no-check leaves it out%n", estimate);
            err.flush();
        }
        float[] here;
        try (Generator generator =
                new Generator(loaded, opened.device(), flags.precision(), flags.fallback(), ids.length)) {
            generator.feed(Arrays.copyOf(ids, CHECKED - 1));
            generator.feedOne(ids[CHECKED - 1]);
            here = generator.logits();
        }
        Precision precision = flags.precision();
        try (Device reference = Selection.choose("reference").backend().open(new DeviceOptions(0, 0, Path.of("")));
                Scope weights = new Scope(reference)) {
            Model again = load(tuned, files, weights);
            try (Generator generator = new Generator(again, reference, precision, Fallback.QUIET, ids.length)) {
                generator.feed(ids);
                double difference = difference(here, generator.logits());
                boolean rounded = opened.rounds()
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

    private static double difference(float[] a, float[] b) {
        double low = Double.POSITIVE_INFINITY;
        double high = Double.NEGATIVE_INFINITY;
        double largest = 0;
        for (int i = 0; i < b.length; i++) {
            low = Math.min(low, b[i]);
            high = Math.max(high, b[i]);
            largest = Math.max(largest, Math.abs((double) a[i] - b[i]));
        }
        return largest / (high - low);
    }

    /**
     * What a token costs: bytes of weights read for one, multiply-adds (as two) of a prompt's projections. Attention is not
     * counted.
     */
    private record Work(double bytes, double flops) {
        static Work of(ModelFiles files) {
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

    private void report(
            ModelFiles files,
            DeviceFlags.Opened opened,
            double load,
            long resident,
            Work work,
            List<Times> times,
            Optional<Limits> limits,
            Optional<Double> difference) {
        double prefill =
                promptTokens / median(times.stream().map(Times::prefill).toList());
        double decode = genTokens / median(times.stream().map(Times::decode).toList());
        double firstToken = 1e3 * median(times.stream().map(Times::firstToken).toList());
        long stored =
                files.tensors().stream().mapToLong(ModelFiles.Stored::bytes).sum();
        ProcessMemory process = ProcessMemory.now();
        ObjectNode root = Jackson.object();
        root.put("model", what.model().orElseGet(() -> files.path().toString()));
        root.put("architecture", files.architecture());
        root.put("parameters", parameters(files));
        root.put("device", opened.device().name());
        root.put("prompt_tokens", promptTokens);
        root.put("gen_tokens", genTokens);
        root.put("depth", depth);
        root.put("prefill_tok_s", prefill);
        root.put("decode_tok_s", decode);
        root.put("first_token_ms", firstToken);
        root.put("load_ms", 1e3 * load);
        root.put("stored_bytes", stored);
        root.put("resident_bytes", resident);
        process.resident().ifPresent(bytes -> root.put("process_rss_bytes", bytes));
        process.peak().ifPresent(bytes -> root.put("process_peak_rss_bytes", bytes));
        root.put("decode_gb_s", decode * work.bytes() / 1e9);
        root.put("prefill_gflop_s", prefill * work.flops() / 1e9);
        difference.ifPresent(value -> root.put("logit_difference", value));
        limits.ifPresent(most -> {
            ObjectNode node = root.putObject("limits");
            node.put("read_gb_s", most.bytesPerSecond() / 1e9);
            node.put("fma_gflop_s", most.flopsPerSecond() / 1e9);
            node.put("decode_share", decode * work.bytes() / most.bytesPerSecond());
            node.put("prefill_share", prefill * work.flops() / most.flopsPerSecond());
        });
        ArrayNode prompts = root.putArray("prefill_tok_s_each");
        times.forEach(time -> prompts.add(promptTokens / time.prefill()));
        ArrayNode generated = root.putArray("decode_tok_s_each");
        times.forEach(time -> generated.add(genTokens / time.decode()));
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            Output.json(out, root);
            return;
        }
        out.printf(
                "model        %9.3f billion parameters (%s, %s)%n",
                parameters(files) / 1e9, files.path().getFileName(), files.architecture());
        out.printf(
                "prompt       %9.1f tokens/s   %9.1f GFLOP/s%s%n",
                prefill,
                prefill * work.flops() / 1e9,
                limits.map(most -> share(prefill * work.flops(), most.flopsPerSecond()))
                        .orElse(""));
        out.printf(
                "generated    %9.1f tokens/s   %9.1f GB/s   %s%n",
                decode,
                decode * work.bytes() / 1e9,
                limits.map(most -> share(decode * work.bytes(), most.bytesPerSecond()))
                        .orElse(""));
        out.printf("first token  %9.1f ms%n", firstToken);
        out.printf(
                "loaded in    %9.2f s          %9.2f GB of weights, %.2f GB in the file%n",
                load, resident / 1e9, stored / 1e9);
        process.resident().ifPresent(bytes -> out.printf("process      %9.2f GB resident%n", bytes / 1e9));
        difference.ifPresent(
                value -> out.printf("difference   %9.1e of the range of logits, from the reference%n", value));
        out.flush();
    }

    private static String share(double rate, double limit) {
        return " of %9.1f %4.0f %%".formatted(limit / 1e9, 100 * rate / limit);
    }

    private static long parameters(ModelFiles files) {
        return files.tensors().stream()
                .mapToLong(tensor -> tensor.shape().size())
                .sum();
    }

    private static double median(List<Double> values) {
        List<Double> sorted = values.stream().sorted().toList();
        return sorted.get(sorted.size() / 2);
    }
}
