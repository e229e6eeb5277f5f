package dev.starforge.cli;

import dev.starforge.model.Batches;
import dev.starforge.model.KvCache;
import dev.starforge.model.LoraAdapter;
import dev.starforge.model.Model;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.SafetensorsFile;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "logits",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        sortOptions = false,
        description = {
            "Writes the logits of every position of some texts, for comparison with other programs.",
            "",
            "The file is safetensors: logits.0 [tokens, vocabulary], logits.1, ..., one for each --ids. Weights are float32",
            "unless --weights says otherwise, and every product is exact.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge logits MODEL --ids 5,6,7 --out LOGITS.safetensors",
            "  starforge logits MODEL --adapter ADAPTER --ids 5,6,7 --ids 1,2 --out LOGITS.safetensors",
        })
final class LogitsVerb implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Parameters(paramLabel = "MODEL", description = "A folder with config.json and safetensors, or a .gguf file.")
    private Path model;

    @Option(
            names = "--ids",
            required = true,
            paramLabel = "ID,...",
            description = "Token ids, separated by commas. May be given several times.")
    private List<String> texts;

    @Option(names = "--adapter", paramLabel = "DIR", description = "A PEFT LoRA adapter to apply.")
    private Path adapter;

    @Option(names = "--out", required = true, paramLabel = "FILE", description = "Where to write; not there yet.")
    private Path out;

    @Option(names = "--json", description = "For machines.")
    private boolean json;

    @Override
    public Integer call() {
        flags.refuseKv();
        if (Files.exists(out)) {
            throw new ParameterException(spec.commandLine(), "--out " + out + ": is there already");
        }
        try (ModelFiles files = ModelFiles.open(model);
                DeviceFlags.Opened opened = flags.open();
                Scope weights = new Scope(opened.device());
                Scope step = new Scope(opened.device())) {
            Model loaded = load(files, weights);
            List<int[]> ids = new ArrayList<>();
            texts.forEach(text -> ids.add(ids(text, loaded.facts().vocabulary())));
            var ops = opened.device().ops(step, flags.convertedPrecision(), flags.fallback());
            List<SafetensorsFile.Entry> entries = new ArrayList<>();
            for (int i = 0; i < ids.size(); i++) {
                int[] text = ids.get(i);
                float[] logits = step.within(() -> opened.device()
                        .floats(loaded.forward(ops, Batches.packed(loaded, step, List.of(text)), KvCache.NONE)));
                Shape shape = Shape.of(ids.get(i).length, logits.length / ids.get(i).length);
                entries.add(SafetensorsFile.Entry.of("logits." + i, shape, logits));
            }
            SafetensorsFile.write(out, entries);
            print(files, opened, ids);
        }
        return 0;
    }

    private int[] ids(String text, int vocabulary) {
        try {
            int[] ids = Arrays.stream(text.split(",", -1))
                    .mapToInt(Integer::parseInt)
                    .toArray();
            if (Arrays.stream(ids).allMatch(id -> id >= 0 && id < vocabulary)) {
                return ids;
            }
        } catch (NumberFormatException wrong) {
            // answered below, with the value
        }
        throw new ParameterException(
                spec.commandLine(), "--ids: expected numbers from 0 to " + (vocabulary - 1) + ", got " + text);
    }

    private Model load(ModelFiles files, Scope weights) {
        if (adapter == null) {
            return files.load(weights, flags.convertedPrecision());
        }
        try (LoraAdapter lora = LoraAdapter.open(adapter, weights)) {
            Adapters.noteBase(adapter, spec.commandLine().getErr());
            return files.load(weights, flags.convertedPrecision(), lora);
        }
    }

    private void print(ModelFiles files, DeviceFlags.Opened opened, List<int[]> ids) {
        PrintWriter writer = spec.commandLine().getOut();
        int tokens = ids.stream().mapToInt(text -> text.length).sum();
        if (json) {
            ObjectNode root = Json.object();
            root.put("model", model.toString()).put("architecture", files.architecture());
            root.put("device", opened.device().name()).put("tokens", tokens).put("out", out.toString());
            Json.print(writer, root);
            return;
        }
        writer.println("logits of " + tokens + " tokens written to " + out);
        writer.flush();
    }
}
