package dev.starforge.cli;

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
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.LongSupplier;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
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
            "Before it times, the logits of two tokens are compared with the reference device's; a wrong answer is not "
                    + "timed. Figures are medians over the repeats, after one run to warm up.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge bench --model model.gguf",
            "  starforge bench --model model.gguf --prompt-tokens 512 --gen-tokens 64 --threads 2 --repeat 5 --json",
        })
final class BenchVerb implements Callable<Integer> {
    /** The largest difference of a logit, in parts of their range, that still counts as the same answer. */
    private static final double EXACT = 2e-3;

    private static final double ROUNDED = 5e-2;
    private static final long MOST_READ = 2L << 30;

    private final LongSupplier nanoTime;

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Option(names = "--model", required = true, paramLabel = "MODEL", description = "A folder or a .gguf file.")
    private Path model;

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
            description =
                    "Tokens in the context before the generated ones, instead of none. Default: ${DEFAULT-VALUE}.")
    private int depth;

    @Option(names = "--repeat", defaultValue = "3", paramLabel = "R", description = "Default: ${DEFAULT-VALUE}.")
    private int repeat;

    @Option(
            names = "--no-check",
            description = "Do not compare with the reference device, which is slow for large models.")
    private boolean unchecked;

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
        try (ModelFiles files = ModelFiles.open(model);
                DeviceFlags.Opened opened = flags.openFast();
                Scope weights = new Scope(opened.device())) {
            long start = nanoTime.getAsLong();
            Model loaded = files.load(weights, flags.precision());
            opened.device().synchronize();
            double load = since(start);
            int room = Math.max(promptTokens, depth) + genTokens;
            if (room > loaded.facts().context()) {
                throw new ParameterException(
                        spec.commandLine(),
                        room + " tokens exceed the model's context of "
                                + loaded.facts().context());
            }
            Optional<Double> difference = unchecked ? Optional.empty() : Optional.of(check(files, loaded, opened));
            Work work = Work.of(files);
            List<Times> times = new ArrayList<>();
            for (int i = 0; i <= repeat; i++) {
                Times now = run(loaded, opened.device());
                if (i > 0) {
                    times.add(now);
                    progress(i, now);
                }
            }
            Optional<Limits> limits = opened.device().limits(Math.min(MOST_READ, weights.usedBytes()));
            report(files, opened, load, weights.usedBytes(), work, times, limits, difference);
        }
        return 0;
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

    /** The largest difference of two tokens' logits from the reference's, in parts of their range. */
    private double check(ModelFiles files, Model loaded, DeviceFlags.Opened opened) {
        int[] ids = ids(2, loaded);
        float[] here;
        try (Generator generator =
                new Generator(loaded, opened.device(), flags.precision(), flags.fallback(), ids.length)) {
            generator.feed(ids);
            here = generator.logits();
        }
        Precision precision = flags.precision();
        try (Device reference = Selection.choose("reference").backend().open(new DeviceOptions(0, 0, Path.of("")));
                Scope weights = new Scope(reference)) {
            Model again = files.load(weights, precision);
            try (Generator generator = new Generator(again, reference, precision, Fallback.QUIET, ids.length)) {
                generator.feed(ids);
                double difference = difference(here, generator.logits());
                double bound = opened.rounds() ? ROUNDED : EXACT;
                if (!(difference <= bound)) {
                    throw new ModelException(
                            model,
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
        ObjectNode root = Json.object();
        root.put("model", model.toString());
        root.put("architecture", files.architecture());
        root.put("device", opened.device().name());
        root.put("prompt_tokens", promptTokens);
        root.put("gen_tokens", genTokens);
        root.put("depth", depth);
        root.put("prefill_tok_s", prefill);
        root.put("decode_tok_s", decode);
        root.put(
                "first_token_ms",
                1e3 * median(times.stream().map(Times::firstToken).toList()));
        root.put("load_ms", 1e3 * load);
        root.put("resident_bytes", resident);
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
            Json.print(out, root);
            return;
        }
        out.printf(
                "prompt     %8.1f tokens/s  %8.1f GFLOP/s%s%n",
                prefill,
                prefill * work.flops() / 1e9,
                limits.map(most -> " of %.1f, %.0f %%"
                                .formatted(
                                        most.flopsPerSecond() / 1e9,
                                        100 * prefill * work.flops() / most.flopsPerSecond()))
                        .orElse(""));
        out.printf(
                "generated  %8.1f tokens/s  %8.1f GB/s%s%n",
                decode,
                decode * work.bytes() / 1e9,
                limits.map(most -> " of %.1f, %.0f %%"
                                .formatted(
                                        most.bytesPerSecond() / 1e9,
                                        100 * decode * work.bytes() / most.bytesPerSecond()))
                        .orElse(""));
        out.printf("loaded in  %8.2f s, %.2f GB in memory%n", load, resident / 1e9);
        difference.ifPresent(value -> out.printf("logits differ from the reference by %.1e of their range%n", value));
        out.flush();
    }

    private static double median(List<Double> values) {
        List<Double> sorted = values.stream().sorted().toList();
        return sorted.get(sorted.size() / 2);
    }
}
