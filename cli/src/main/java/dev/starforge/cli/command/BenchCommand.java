package dev.starforge.cli.command;

import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ProcessMemory;
import dev.starforge.cli.train.TrainBench;
import dev.starforge.model.Model;
import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Limits;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.eval.Throughput;
import dev.starforge.train.tune.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.regex.Matcher;
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
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Measure the speed of prefill, decode and training.",
            "",
            "Prints tokens/s beside the limit of the machine. Prefill is compute bound: the limit is the peak rate of"
                    + " multiply-adds. Decode is memory bound, since each token reads all weights: the limit is memory"
                    + " bandwidth. Attention is not counted in either.",
            "",
            "Before timing, logits are compared with the reference device, or with the CPU if the model is too large"
                    + " for the reference; a wrong result is not timed. With --batch, each sequence of the batch is"
                    + " compared with the same sequence alone. Results are medians of the runs after one warm-up run.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge bench model.gguf",
            "  starforge bench RUN                    # a training run with its base",
            "  starforge bench model.gguf --threads 2 --repeat 5 --json",
            "  starforge bench --random llama-3.2-1b --format Q4_K_M",
            "  starforge bench --random starcoder2-3b --depth 4096    # with a long context",
            "  starforge bench --random starcoder2-3b --batch 32",
            "  starforge bench --random starcoder2-3b --train 2x2048 \\",
            "      --quantized nf4-double --checkpointing full --profile",
        })
final class BenchCommand implements Callable<Integer> {
    private static final long MOST_READ = 2L << 30;
    private static final int MOST_SEQUENCES = 64;
    private static final List<String> OF_TEXT =
            List.of("--prompt-tokens", "--gen-tokens", "--depth", "--batch", "--no-check", "--replays", "--no-limits");

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

        @Option(
                names = "--random",
                paramLabel = "SHAPE",
                completionCandidates = Shapes.class,
                description = "Model with random weights in a known shape: ${COMPLETION-CANDIDATES}.")
        private String random;

        Optional<String> model() {
            return Optional.ofNullable(positional);
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
            description = "Weight format of --random, with the type mix of llama-quantize: F32, F16, BF16, Q8_0, Q6_K,"
                    + " Q5_K_M, Q5_0, Q4_K_M, Q4_1, Q4_0 or NF4. Default: Q4_0.")
    private String format;

    @Option(
            names = "--prompt-tokens",
            defaultValue = "512",
            paramLabel = "N",
            description = "Number of prompt tokens. Default: ${DEFAULT-VALUE}.")
    private int promptTokens;

    @Option(
            names = "--gen-tokens",
            defaultValue = "64",
            paramLabel = "N",
            description = "Number of generated tokens. Default: ${DEFAULT-VALUE}.")
    private int genTokens;

    @Option(
            names = "--depth",
            defaultValue = "0",
            paramLabel = "N",
            description = "Number of tokens in the KV cache before decode. Default: ${DEFAULT-VALUE}.")
    private int depth;

    @Option(
            names = "--batch",
            defaultValue = "1",
            paramLabel = "N",
            description = "Number of sequences in a decode batch, 1 to 64; decode throughput is the total. Default:"
                    + " ${DEFAULT-VALUE}.")
    private int batch;

    @Option(
            names = "--repeat",
            defaultValue = "3",
            paramLabel = "R",
            description = "Number of timed runs. Default: ${DEFAULT-VALUE}.")
    private int repeat;

    @Option(names = "--no-check", description = "Skip the comparison of logits.")
    private boolean unchecked;

    @Option(
            names = "--replays",
            defaultValue = "3",
            paramLabel = "N",
            description = "Number of repeated decode steps that must be bit-identical. Default: ${DEFAULT-VALUE}.")
    private int replays;

    @Option(
            names = "--no-limits",
            description = "Skip the measurement of the limits of the machine, which takes some seconds.")
    private boolean unlimited;

    @ArgGroup(exclusive = false)
    private Training training;

    /** Options for timing training steps. */
    private static final class Training {
        @Option(
                names = "--train",
                required = true,
                paramLabel = "BxT",
                description =
                        "Measure training steps with B sequences of T tokens instead. Trains an adapter of rank 32;"
                                + " results are not compared with the reference.")
        private String size;

        @Option(
                names = "--quantized",
                defaultValue = "none",
                paramLabel = "FORMAT",
                description = "Quantization of the frozen base: none, nf4, nf4-double or int8-128. Default:"
                        + " ${DEFAULT-VALUE}.")
        private String quantized;

        @Option(
                names = "--checkpointing",
                defaultValue = "off",
                paramLabel = "LEVEL",
                description = "Activation checkpointing: off, selective or full. Default: ${DEFAULT-VALUE}.")
        private Checkpointing checkpointing;

        @Option(names = "--full", description = "Train all weights in float32 instead of an adapter.")
        private boolean full;

        @Option(names = "--profile", description = "Print the time per operation of a step.")
        private boolean profile;
    }

    @Option(names = "--json", description = "Print one JSON object.")
    private boolean json;

    BenchCommand() {
        this(System::nanoTime);
    }

    BenchCommand(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
    }

    @Override
    public Integer call() {
        if (promptTokens < 1 || genTokens < 1 || repeat < 1 || depth < 0 || replays < 0) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--prompt-tokens, --gen-tokens and --repeat: expected at least 1, --depth and --replays: at"
                            + " least 0");
        }
        if (batch < 1 || batch > MOST_SEQUENCES) {
            throw new ParameterException(
                    spec.commandLine(), "--batch: expected 1 to " + MOST_SEQUENCES + ", got " + batch);
        }
        if (what.model().isPresent() && format != null) {
            throw new ParameterException(spec.commandLine(), "--format: requires --random");
        }
        if (training != null) {
            return train();
        }
        Optional<TunedModel> tuned = what.model().map(models::find);
        try (ModelFiles files = tuned.map(found -> ModelFiles.open(found.model()))
                        .orElseGet(() -> ModelFiles.random(what.random, format == null ? "Q4_0" : format));
                DeviceFlags.Opened opened = flags.open();
                Scope weights = new Scope(opened.device())) {
            long start = nanoTime.getAsLong();
            Model loaded = load(tuned, files, weights);
            opened.device().synchronize();
            double loadSeconds = (nanoTime.getAsLong() - start) / 1e9;
            Throughput throughput = new Throughput(
                    loaded,
                    opened.device(),
                    flags.precision(),
                    flags.fallback(),
                    promptTokens,
                    genTokens,
                    depth,
                    batch,
                    nanoTime);
            requireContext(loaded, throughput);
            Optional<Throughput.Checked> checked = unchecked
                    ? Optional.empty()
                    : Optional.of(check(throughput, opened.device(), files, scope -> load(tuned, files, scope)));
            List<Throughput.ThroughputSample> times = new ArrayList<>();
            for (int i = 0; i <= repeat; i++) {
                Throughput.ThroughputSample now = throughput.run();
                if (i > 0) { // the first run is a warm-up
                    times.add(now);
                    progress(i, now);
                }
            }
            Optional<Limits> limits =
                    unlimited ? Optional.empty() : opened.device().limits(Math.min(MOST_READ, weights.usedBytes()));
            Result result = new Result(
                    loadSeconds,
                    weights.usedBytes(),
                    promptTokens / Throughput.ThroughputSample.median(times, Throughput.ThroughputSample::prefill),
                    (double) batch
                            * genTokens
                            / Throughput.ThroughputSample.median(times, Throughput.ThroughputSample::decode),
                    1e3 * Throughput.ThroughputSample.median(times, Throughput.ThroughputSample::firstToken),
                    1e6 * Throughput.ThroughputSample.median(times, Throughput.ThroughputSample::hostStep),
                    batch,
                    Throughput.Work.of(files),
                    times,
                    limits,
                    checked);
            if (json) {
                ReportOutput.json(spec.commandLine().getOut(), describe(files, opened, result));
            } else {
                print(spec.commandLine().getOut(), files, result);
            }
        }
        return 0;
    }

    private int train() {
        for (String flag : OF_TEXT) {
            if (spec.commandLine().getParseResult().hasMatchedOption(flag)) {
                throw new ParameterException(spec.commandLine(), flag + ": not supported with --train");
            }
        }
        Matcher size = Pattern.compile("(\\d{1,6})x(\\d{1,6})").matcher(training.size);
        if (!size.matches() || size.group(1).equals("0") || Integer.parseInt(size.group(2)) < 2) {
            throw new ParameterException(
                    spec.commandLine(), "--train " + training.size + ": expected sequences x tokens, such as 2x2048");
        }
        if (training.full && !training.quantized.equals("none")) {
            throw new ParameterException(spec.commandLine(), "--full and --quantized cannot be combined");
        }
        try (ModelFiles files = what.model()
                        .map(this::whole)
                        .map(ModelFiles::open)
                        .orElseGet(() -> ModelFiles.random(what.random, format == null ? "BF16" : format));
                DeviceFlags.Opened opened = flags.open()) {
            TrainBench bench = new TrainBench(
                    files,
                    training.full,
                    Quantization.parse(training.quantized),
                    Integer.parseInt(size.group(1)),
                    Integer.parseInt(size.group(2)),
                    training.checkpointing,
                    repeat,
                    training.profile,
                    nanoTime);
            Precision precision = flags.precision().withInt8Activations(false);
            TrainBench.Result result = bench.run(opened.device(), precision, flags.fallback());
            if (json) {
                ReportOutput.json(spec.commandLine().getOut(), bench.json(opened.device(), result));
            } else {
                bench.print(spec.commandLine().getOut(), result);
            }
        }
        return 0;
    }

    /** The model to train. An adapter is refused, since training steps would not use it. */
    private Path whole(String name) {
        TunedModel found = models.find(name);
        if (found.adapter().isPresent()) {
            throw new ParameterException(
                    spec.commandLine(), "--train: " + name + " is an adapter; pass its base: " + found.model());
        }
        return found.model();
    }

    /**
     * What was measured.
     *
     * @param prefill tokens/s
     * @param decode tokens/s
     * @param firstToken milliseconds
     * @param hostStep microseconds until a decode step is on its way
     */
    private record Result(
            double loadSeconds,
            long residentBytes,
            double prefill,
            double decode,
            double firstToken,
            double hostStep,
            int batch,
            Throughput.Work work,
            List<Throughput.ThroughputSample> times,
            Optional<Limits> limits,
            Optional<Throughput.Checked> checked) {
        double flops() {
            return prefill * work.flops();
        }

        double bytesPerSecond() {
            return decode / batch * work.bytes();
        }
    }

    private void requireContext(Model loaded, Throughput throughput) {
        long needed = throughput.context();
        if (needed > loaded.info().contextLength()) {
            throw new ParameterException(
                    spec.commandLine(),
                    needed + " tokens exceed the context length of the model, "
                            + loaded.info().contextLength());
        }
    }

    private Throughput.Checked check(
            Throughput throughput, Device device, ModelFiles files, Function<Scope, Model> load) {
        String oracle = Throughput.oracle(device, parameters(files));
        double seconds = throughput.checkSeconds(oracle, parameters(files));
        if (seconds > 2) {
            PrintWriter err = spec.commandLine().getErr();
            err.printf("comparing logits with device %s, about %.0f s (--no-check to skip)%n", oracle, seconds);
            err.flush();
        }
        return throughput.check(oracle, replays, files, load);
    }

    private Model load(Optional<TunedModel> tuned, ModelFiles files, Scope weights) {
        return tuned.map(found -> found.load(files, weights, flags.precision()))
                .orElseGet(() -> files.load(weights, flags.precision()));
    }

    private void progress(int done, Throughput.ThroughputSample now) {
        PrintWriter err = spec.commandLine().getErr();
        err.printf(
                "%d of %d: prefill %.1f tokens/s, decode %.1f tokens/s%n",
                done, repeat, promptTokens / now.prefill(), (double) batch * genTokens / now.decode());
        err.flush();
    }

    private ObjectNode describe(ModelFiles files, DeviceFlags.Opened opened, Result result) {
        ObjectNode root = Jackson.object();
        root.put("model", what.model().orElseGet(() -> files.path().toString()));
        root.put("architecture", files.architecture());
        root.put("parameters", parameters(files));
        root.put("device", opened.device().name());
        root.put("prompt_tokens", promptTokens);
        root.put("gen_tokens", genTokens);
        root.put("depth", depth);
        root.put("batch", batch);
        root.put("prefill_tok_s", result.prefill());
        root.put("decode_tok_s", result.decode());
        root.put("first_token_ms", result.firstToken());
        root.put("host_step_us", result.hostStep());
        root.put("load_ms", 1e3 * result.loadSeconds());
        root.put("stored_bytes", storedBytes(files));
        root.put("resident_bytes", result.residentBytes());
        ProcessMemory process = ProcessMemory.now();
        process.resident().ifPresent(bytes -> root.put("process_rss_bytes", bytes));
        process.peak().ifPresent(bytes -> root.put("process_peak_rss_bytes", bytes));
        root.put("decode_gb_s", result.bytesPerSecond() / 1e9);
        root.put("prefill_gflop_s", result.flops() / 1e9);
        result.checked().ifPresent(checked -> {
            root.put("logit_difference", checked.difference());
            checked.together().ifPresent(difference -> root.put("batch_logit_difference", difference));
            root.put("logit_crc32", checked.crc32());
        });
        result.limits().ifPresent(most -> {
            ObjectNode node = root.putObject("limits");
            node.put("read_gb_s", most.bytesPerSecond() / 1e9);
            node.put("fma_gflop_s", most.flopsPerSecond() / 1e9);
            node.put("decode_share", result.bytesPerSecond() / most.bytesPerSecond());
            node.put("prefill_share", result.flops() / most.flopsPerSecond());
            if (most.byteOpsPerSecond() > 0) {
                node.put("int8_gop_s", most.byteOpsPerSecond() / 1e9);
                node.put("prefill_int8_share", result.flops() / most.byteOpsPerSecond());
            }
        });
        ArrayNode prefills = root.putArray("prefill_tok_s_each");
        result.times().forEach(time -> prefills.add(promptTokens / time.prefill()));
        ArrayNode decodes = root.putArray("decode_tok_s_each");
        result.times().forEach(time -> decodes.add((double) batch * genTokens / time.decode()));
        return root;
    }

    private static void print(PrintWriter out, ModelFiles files, Result result) {
        out.printf(
                "model        %9.3f billion parameters (%s, %s)%n",
                parameters(files) / 1e9, files.path().getFileName(), files.architecture());
        out.printf(
                "prefill      %9.1f tokens/s   %9.1f GFLOP/s%s%n",
                result.prefill(),
                result.flops() / 1e9,
                result.limits()
                        .map(most -> share(result.flops(), most.flopsPerSecond()))
                        .orElse(""));
        out.printf(
                "decode       %9.1f tokens/s   %9.1f GB/s   %s%n",
                result.decode(),
                result.bytesPerSecond() / 1e9,
                result.limits()
                        .map(most -> share(result.bytesPerSecond(), most.bytesPerSecond()))
                        .orElse(""));
        out.printf("first token  %9.1f ms%n", result.firstToken());
        out.printf("host         %9.1f us until a decode step of one sequence is on its way%n", result.hostStep());
        out.printf(
                "loaded in    %9.2f s          %9.2f GB of weights, %.2f GB in the file%n",
                result.loadSeconds(), result.residentBytes() / 1e9, storedBytes(files) / 1e9);
        ProcessMemory.now().resident().ifPresent(bytes -> out.printf("process      %9.2f GB resident%n", bytes / 1e9));
        result.checked().ifPresent(checked -> {
            out.printf("difference   %9.1e of the range of logits, before timing%n", checked.difference());
            checked.together()
                    .ifPresent(difference -> out.printf(
                            "             %9.1e of %d sequences decoded together%n", difference, result.batch()));
        });
        out.flush();
    }

    private static long storedBytes(ModelFiles files) {
        return files.tensors().stream().mapToLong(ModelFiles.TensorInfo::bytes).sum();
    }

    private static String share(double rate, double limit) {
        return " of %9.1f %4.0f %%".formatted(limit / 1e9, 100 * rate / limit);
    }

    private static long parameters(ModelFiles files) {
        return files.tensors().stream()
                .mapToLong(tensor -> tensor.shape().size())
                .sum();
    }
}
