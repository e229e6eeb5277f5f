package dev.starforge.cli.command;

import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.model.JsonConfig;
import dev.starforge.model.Model;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.kv.PagedKvCache;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.tune.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
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
        name = "inspect",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = {
            "Show the architecture, tensors and memory of a model.",
            "",
            "Checks that the tensors match the configuration of the model.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge inspect MODEL",
            "  starforge inspect MODEL --plan --context 4096 --json",
            "  starforge inspect MODEL --tensors",
            "  starforge inspect RUN",
        },
        sortOptions = false)
final class InspectCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Mixin
    private ModelFlags models;

    @Parameters(paramLabel = "MODEL", description = ModelFlags.KINDS)
    private String name;

    @Option(names = "--tensors", description = "List all tensors.")
    private boolean tensors;

    @Option(names = "--plan", description = "Compute the memory for generation, without allocating it.")
    private boolean plan;

    @Option(
            names = "--context",
            paramLabel = "N",
            description = "Number of tokens in the KV cache for --plan. Default: the context length of the model.")
    private Integer context;

    @Option(
            names = "--prefill",
            paramLabel = "N",
            description = "Maximum tokens of a prefill chunk for --plan. Default: the whole context.")
    private Integer prefill;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() {
        if (context != null && (context < 1 || !plan)) {
            throw new ParameterException(
                    spec.commandLine(), "--context: expected a positive number, together with --plan");
        }
        if (prefill != null && (prefill < 1 || !plan)) {
            throw new ParameterException(
                    spec.commandLine(), "--prefill: expected a positive number, together with --plan");
        }
        PrintWriter out = spec.commandLine().getOut();
        TunedModel tuned = models.find(name);
        try (ModelFiles folder = ModelFiles.open(tuned.model());
                DeviceFlags.Opened opened = flags.open()) {
            NullOps weights = new NullOps(opened.device(), flags.precision(), flags.fallback());
            Model loaded = tuned.load(folder, weights.scope(), flags.precision());
            ObjectNode root = describe(folder, loaded);
            tuned.adapter().ifPresent(adapter -> describe(adapter, root));
            if (plan) {
                root.set("plan", planned(loaded, opened, weights.scope().usedBytes()));
            }
            if (json) {
                ReportOutput.json(out, root);
            } else {
                print(out, root, "");
            }
        }
        return 0;
    }

    private ObjectNode describe(ModelFiles folder, Model loaded) {
        ObjectNode root = Jackson.object();
        root.put("model", name);
        root.put("architecture", folder.architecture());
        root.put("vocabulary", loaded.info().vocabSize());
        root.put("context", loaded.info().contextLength());
        root.put("layers", loaded.info().layers());
        root.put("kv_heads", loaded.info().kvHeads());
        root.put("head_dim", loaded.info().headDim());
        Map<String, Long> types = new TreeMap<>();
        long parameters = 0;
        long bytes = 0;
        for (ModelFiles.TensorInfo tensor : folder.tensors()) {
            types.merge(tensor.dtype(), tensor.shape().size(), Long::sum);
            parameters += tensor.shape().size();
            bytes += tensor.bytes();
        }
        root.put("parameters", parameters);
        root.put("tensor_bytes", bytes);
        ObjectNode byType = root.putObject("parameters_by_type");
        types.forEach(byType::put);
        if (tensors) {
            ArrayNode list = root.putArray("tensors");
            for (ModelFiles.TensorInfo tensor : folder.tensors()) {
                list.addObject()
                        .put("name", tensor.name())
                        .put("dtype", tensor.dtype())
                        .put("shape", tensor.shape().toString());
            }
        }
        return root;
    }

    private static void describe(Path adapter, ObjectNode root) {
        JsonConfig config = JsonConfig.read(adapter.resolve(LoraAdapter.CONFIG));
        try (SafetensorsFile file = SafetensorsFile.open(adapter.resolve(LoraAdapter.WEIGHTS))) {
            root.putObject("adapter")
                    .put("folder", adapter.toString())
                    .put("rank", config.size("r"))
                    .put("alpha", config.number("lora_alpha"))
                    .put(
                            "parameters",
                            file.tensors().values().stream()
                                    .mapToLong(tensor -> tensor.shape().size())
                                    .sum())
                    .put("trained_on", LoraAdapter.trainedOn(adapter).toString());
        }
    }

    /** Memory of weights, KV cache for the context, and the largest prefill step. */
    private ObjectNode planned(Model loaded, DeviceFlags.Opened opened, long weightBytes) {
        int tokens = context != null ? context : loaded.info().contextLength();
        if (tokens > loaded.info().contextLength()) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--context: expected at most " + loaded.info().contextLength() + " (model context length), got "
                            + tokens);
        }
        Precision precision = flags.precision();
        NullOps session = new NullOps(opened.device(), precision, flags.fallback());
        int blocks = (tokens + PagedKvCache.BLOCK_SIZE - 1) / PagedKvCache.BLOCK_SIZE;
        PagedKvCache cache = new PagedKvCache(loaded.info(), blocks, precision.kv(), session.scope());
        int widest = prefill == null ? tokens : Math.min(prefill, tokens);
        NullOps step = new NullOps(opened.device(), precision, flags.fallback());
        loaded.forward(
                step,
                Batches.cached(
                        loaded, step.scope(), List.of(new Batches.BatchEntry(cache.openSequence(), new int[widest]))),
                cache);
        ObjectNode node = Jackson.object();
        node.put("device", opened.device().name());
        node.put("context", tokens);
        node.put("weight_bytes", weightBytes);
        node.put("kv_bytes", session.scope().usedBytes());
        node.put("step_bytes", step.plan().tensorBytes());
        node.put("workspace_bytes", step.plan().workspaceBytes());
        node.put(
                "total_bytes",
                weightBytes + session.scope().usedBytes() + step.plan().totalBytes());
        return node;
    }

    private static void print(PrintWriter out, ObjectNode node, String indent) {
        node.properties().forEach(entry -> {
            if (entry.getValue() instanceof ObjectNode inner) {
                out.println(indent + entry.getKey() + ":");
                print(out, inner, indent + "  ");
            } else if (entry.getValue() instanceof ArrayNode list) {
                out.println(indent + entry.getKey() + ":");
                list.forEach(item -> out.println(indent + "  "
                        + item.path("name").stringValue() + " "
                        + item.path("dtype").stringValue() + item.path("shape").stringValue()));
            } else if (entry.getKey().endsWith("_bytes")) {
                out.printf(
                        Locale.ROOT,
                        "%s%s: %,d (%.2f GB)%n",
                        indent,
                        entry.getKey(),
                        entry.getValue().longValue(),
                        entry.getValue().longValue() / 1e9);
            } else {
                out.println(indent + entry.getKey() + ": " + entry.getValue().asString());
            }
        });
        out.flush();
    }
}
