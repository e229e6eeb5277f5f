package dev.starforge.cli.command;

import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.TrainConfigFlags;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.output.TextTable;
import dev.starforge.cli.process.ExternalTools;
import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.eval.Evaluation;
import dev.starforge.train.eval.EvaluationPage;
import dev.starforge.train.plan.Adaptation;
import dev.starforge.train.plan.LimitedDevice;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import dev.starforge.train.weights.ScratchModel;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "eval",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Evaluate a model on held-out code.",
            "",
            "Measures perplexity, bits per byte, completion of lines from their start, from inside a word and from the"
                    + " end of a word, as editors request it, with and without fill-in-the-middle (fim), and whether"
                    + " completions parse. With --adapter, compares base and tuned model. Each metric has a 95 %% bootstrap interval."
                    + " Large splits are sampled; see --max-tokens. The base is quantized as it was in training, unless"
                    + " load_in_4bit or load_in_8bit is set.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge eval --config train.yaml --adapter RUN --report eval.html",
            "  starforge eval --set model.pretrained_model=MODEL --dataset DATA --json",
        })
final class EvalCommand implements Callable<Integer> {
    private static final int DECIMALS = 4;
    private static final List<String> TASKS =
            List.of("next_line", "fim_line", "fim_block", "mid_word", "fim_mid_word", "word_end", "fim_word_end");

    @Spec
    private CommandSpec spec;

    @Mixin
    private TrainConfigFlags flags;

    @Option(names = "--adapter", paramLabel = "DIR", description = "Tuned model: an adapter, a checkpoint or a run.")
    private Path adapter;

    @Option(
            names = "--split",
            paramLabel = "NAME",
            defaultValue = "test",
            description = "Split to evaluate: test or validation. Default: ${DEFAULT-VALUE}.")
    private String split;

    @Option(
            names = "--samples",
            paramLabel = "N",
            defaultValue = "50",
            description = "Number of completions of each kind. Default: ${DEFAULT-VALUE}.")
    private int samples;

    @Option(
            names = "--max-tokens",
            paramLabel = "N",
            description = "Maximum number of held-out tokens, or all. Same as --set evaluation.max_tokens=N.")
    private String maxTokens;

    @Option(
            names = "--report",
            paramLabel = "FILE",
            description = "File for the result: HTML if the name ends in .html, otherwise JSON.")
    private Path report;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        if (!List.of("test", "validation").contains(split) || samples < 0) {
            throw new ParameterException(
                    spec.commandLine(), "--split: expected test or validation; --samples: expected at least 0");
        }
        RunConfig config = flags.read(RunConfig.defaults());
        if (maxTokens != null) {
            config = config.set(List.of("evaluation.max_tokens=" + maxTokens));
        }
        PrintWriter err = spec.commandLine().getErr();
        Consumer<String> say = line -> {
            err.println(line);
            err.flush();
        };
        Path model = config.model().equals(ScratchModel.NAME)
                ? TunedModel.completeModel(config.output())
                : ModelLocator.find(config.model());
        Selection selection = Selection.choose(config.device());
        try (ExternalTools tools = new ExternalTools();
                Device opened = selection
                        .backend()
                        .open(new DeviceOptions(config.deviceIndex(), config.threads(), DeviceFlags.kernelCache()))) {
            Device device = config.memoryLimit() > 0 ? new LimitedDevice(opened, config.memoryLimit()) : opened;
            MachineFacts machine = MachineFacts.of(
                    selection.backend().name(),
                    selection.backend().probe().devices().get(config.deviceIndex()));
            Adaptation adapted = Adaptation.forEvaluation(config, machine, blueprint(model), opened, trainedOn());
            ObjectNode result = new Evaluation(new Evaluation.Setup(
                            adapted.config(),
                            model,
                            Optional.ofNullable(adapter),
                            Tokenizers.require(model, "evaluation"),
                            device,
                            adapted.precisionOfRun(),
                            adapted.fallback(say),
                            split,
                            samples,
                            true,
                            tools,
                            System::nanoTime,
                            json ? line -> {} : say))
                    .run();
            if (report != null) {
                boolean page = report.toString().endsWith(".html");
                Files.writeString(report, page ? EvaluationPage.render(result) : Jackson.indented(result) + "\n");
            }
            if (json) {
                ReportOutput.json(spec.commandLine().getOut(), result);
            } else {
                print(spec.commandLine().getOut(), result);
            }
        }
        return 0;
    }

    private static Optional<ModelSpec> blueprint(Path model) {
        try (ModelFiles files = ModelFiles.open(model)) {
            return Optional.of(files.spec());
        }
    }

    /** Quantization of the base during the training of the adapter. */
    private Quantization trainedOn() {
        return adapter == null ? Quantization.NONE : LoraAdapter.trainedOn(Checkpoints.resolve(adapter));
    }

    private static void print(PrintWriter out, ObjectNode result) {
        out.printf(
                Locale.ROOT,
                "%d documents of the %s split: %s%n",
                result.path("documents").intValue(),
                result.path("split").asString(""),
                result.path("sample").path("text").asString(""));
        if (result.has("note")) {
            out.println(result.path("note").asString(""));
        }
        out.println();
        table(result).forEach(out::println);
        for (JsonNode prompt : result.path("prompts")) {
            out.printf(
                    "%n--- %s%n%s",
                    prompt.path("language").asString(""), prompt.path("prompt").asString(""));
            for (String column : List.of("base", "tuned")) {
                if (prompt.has(column)) {
                    JsonNode parses = prompt.path(column).path("parses");
                    String verdict = parses.isNull() ? "no grammar" : parses.asBoolean(false) ? "parses" : "no parse";
                    out.printf(
                            "%n[%s, %s]%n%s%n",
                            column,
                            verdict,
                            Escaped.replaceControls(
                                    prompt.path(column).path("text").asString("")));
                }
            }
        }
        JsonNode scale = result.path("orientation");
        out.printf(
                Locale.ROOT,
                "%nFor orientation, bits per byte: Kneser-Ney of order 3 %.3f, PPM of order 5 %.3f, xz -9 %s, xz -9"
                        + " after the training text %s%n",
                scale.path("kneser_ney_3_bits_per_byte").doubleValue(),
                scale.path("ppm_5_bits_per_byte").doubleValue(),
                measured(scale.path("xz_9_bits_per_byte")),
                measured(scale.path("xz_9_after_train_bits_per_byte")));
        out.flush();
    }

    private static String measured(JsonNode figure) {
        return figure.isNumber() ? String.format(Locale.ROOT, "%.3f", figure.doubleValue()) : "not measured";
    }

    /** One aligned line per measured metric. */
    private static List<String> table(ObjectNode result) {
        List<String> columns = result.has("tuned") ? List.of("base", "tuned", "tuned_minus_base") : List.of("base");
        List<List<String>> rows = new ArrayList<>();
        rows.add(result.has("tuned") ? List.of("", "base", "tuned", "difference") : List.of("", "base"));
        row(rows, result, columns, "perplexity", "perplexity");
        row(rows, result, columns, "bits per byte", "bits_per_byte");
        for (String task : TASKS) {
            for (String figure : List.of("exact_match", "edit_similarity", "identifier_f1")) {
                row(rows, result, columns, task.replace('_', ' ') + ", " + figure.replace('_', ' '), task, figure);
            }
        }
        row(rows, result, columns, "prompts, parse rate", "prompts", "parse_rate");
        return TextTable.lines(rows, Terminal.textWidth());
    }

    private static void row(
            List<List<String>> rows, ObjectNode result, List<String> columns, String name, String... path) {
        if (figure(result.path("base"), path).isEmpty()) {
            return;
        }
        List<String> row = new ArrayList<>(List.of(name));
        columns.forEach(column -> row.add(figure(result.path(column), path)));
        rows.add(row);
    }

    private static String figure(JsonNode column, String... path) {
        JsonNode node = column;
        for (String name : path) {
            node = node.path(name);
        }
        return node.has("value") ? TextTable.interval(node, DECIMALS) : "";
    }
}
