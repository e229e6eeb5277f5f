package dev.starforge.cli;

import dev.starforge.model.Generator;
import dev.starforge.model.LoraAdapter;
import dev.starforge.model.Model;
import dev.starforge.model.ModelFolder;
import dev.starforge.tensor.Scope;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
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
        name = "generate",
        mixinStandardHelpOptions = true,
        description = "Continues a prompt of token ids with the most likely tokens.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge generate MODEL --prompt-ids 5,6,7 --max-tokens 16",
            "  starforge generate MODEL --prompt-ids 5,6,7 --adapter ADAPTER --device cuda --json",
        })
final class GenerateVerb implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Parameters(paramLabel = "MODEL", description = "A folder with config.json and model.safetensors.")
    private Path model;

    @Option(
            names = "--prompt-ids",
            required = true,
            split = ",",
            paramLabel = "ID",
            description = "Token ids, separated by commas.")
    private int[] prompt;

    @Option(names = "--adapter", paramLabel = "DIR", description = "A PEFT LoRA adapter to apply.")
    private Path adapter;

    @Option(
            names = "--max-tokens",
            defaultValue = "32",
            paramLabel = "N",
            description = "At most this many new tokens. Default: ${DEFAULT-VALUE}.")
    private int maxTokens;

    @Option(names = "--ignore-eos", description = "Go on after the model's end-of-text token.")
    private boolean ignoreEos;

    @Option(names = "--json", description = "For machines.")
    private boolean json;

    @Override
    public Integer call() {
        if (maxTokens < 1) {
            throw new ParameterException(spec.commandLine(), "--max-tokens: expected at least 1, got " + maxTokens);
        }
        PrintWriter out = spec.commandLine().getOut();
        try (DeviceFlags.Opened opened = flags.open();
                Scope weights = new Scope(opened.device());
                ModelFolder folder = ModelFolder.open(model)) {
            Model loaded = load(folder, weights);
            int room = prompt.length + maxTokens;
            if (room > loaded.facts().context()) {
                throw new ParameterException(
                        spec.commandLine(),
                        prompt.length + " prompt tokens and " + maxTokens + " new ones exceed the model's context of "
                                + loaded.facts().context());
            }
            Set<Integer> eos = ignoreEos ? Set.of() : folder.endOfText();
            List<Integer> ids = new ArrayList<>();
            try (Generator generator =
                    new Generator(loaded, opened.device(), flags.precision(), flags.fallback(), room)) {
                generator.greedy(prompt, maxTokens, id -> {
                    ids.add(id);
                    if (!json) {
                        out.print((ids.size() > 1 ? "," : "") + id);
                        out.flush();
                    }
                    return !eos.contains(id);
                });
            }
            if (json) {
                Json.print(out, describe(folder, opened, ids, eos));
            } else {
                out.println();
                out.flush();
            }
        }
        return 0;
    }

    private Model load(ModelFolder folder, Scope weights) {
        if (adapter == null) {
            return folder.load(weights, flags.precision());
        }
        try (LoraAdapter lora = LoraAdapter.open(adapter, weights)) {
            return folder.load(weights, flags.precision(), lora);
        }
    }

    private ObjectNode describe(ModelFolder folder, DeviceFlags.Opened opened, List<Integer> ids, Set<Integer> eos) {
        ObjectNode root = Json.object();
        root.put("model", model.toString());
        root.put("architecture", folder.architecture());
        root.put("device", opened.device().name());
        root.put("device_reason", opened.selection().reason());
        ArrayNode given = root.putArray("prompt_ids");
        for (int id : prompt) {
            given.add(id);
        }
        ArrayNode made = root.putArray("ids");
        ids.forEach(made::add);
        root.put("stop_reason", eos.contains(ids.getLast()) ? "EOS" : "MAX_TOKENS");
        return root;
    }
}
