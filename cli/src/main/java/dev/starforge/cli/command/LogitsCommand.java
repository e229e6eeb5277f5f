package dev.starforge.cli.command;

import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.OutputPath;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.model.Model;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.tune.TunedModel;
import dev.starforge.train.verify.StreamedLogits;
import java.io.PrintWriter;
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
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Write the logits of token sequences to a file.",
            "",
            "Writes safetensors with one tensor per --ids: logits.0 [tokens, vocabulary], logits.1, and so on. For"
                    + " comparison with other programs, weights are float32 unless --weights is given, and all products"
                    + " are exact.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge logits MODEL --ids 5,6,7 --out LOGITS.safetensors",
            "  starforge logits MODEL --adapter DIR --ids 5,6 --ids 1 --out out.safetensors",
        })
final class LogitsCommand implements Callable<Integer> {
    /** Number of logits in memory at a time. */
    private static final int PIECE = 1 << 24;

    private final int piece;

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Mixin
    private ModelFlags models;

    @Parameters(paramLabel = "MODEL", description = ModelFlags.KINDS)
    private String name;

    @Option(
            names = "--ids",
            required = true,
            paramLabel = "ID,...",
            description = "Token ids, separated by commas. Can be repeated.")
    private List<String> sequences;

    @Option(names = "--out", required = true, paramLabel = "FILE", description = "New safetensors file.")
    private Path out;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    LogitsCommand() {
        this(PIECE);
    }

    LogitsCommand(int piece) {
        this.piece = piece;
    }

    @Override
    public Integer call() {
        flags.refuseKv();
        OutputPath.require("--out", out, spec.commandLine());
        TunedModel tuned = models.find(name);
        try (ModelFiles files = ModelFiles.open(tuned.model());
                DeviceFlags.Opened opened = flags.open();
                Scope weights = new Scope(opened.device());
                Scope step = new Scope(opened.device());
                ShutdownCleanup _ =
                        ShutdownCleanup.removing(out, spec.commandLine().getErr())) {
            Model loaded = tuned.load(files, weights, flags.convertedPrecision());
            EagerOps ops = opened.device().ops(step, flags.convertedPrecision(), flags.fallback());
            List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
            long tokens = 0;
            for (String text : sequences) {
                int[] ids = ids(text, loaded.info());
                entries.add(new StreamedLogits(loaded, ops, step, ids, piece).entry("logits." + entries.size()));
                tokens += ids.length;
            }
            SafetensorsWriter.write(out, entries);
            print(files, opened, tokens);
        }
        return 0;
    }

    private int[] ids(String text, Model.ModelInfo facts) {
        try {
            int[] ids = Arrays.stream(text.split(",", -1))
                    .mapToInt(Integer::parseInt)
                    .toArray();
            if (ids.length > facts.contextLength()) {
                throw new ParameterException(
                        spec.commandLine(),
                        "--ids: " + ids.length + " tokens exceed the context length of the model, "
                                + facts.contextLength());
            }
            if (Arrays.stream(ids).allMatch(id -> id >= 0 && id < facts.vocabSize())) {
                return ids;
            }
        } catch (NumberFormatException wrong) {
            // answered below, with the value
        }
        throw new ParameterException(
                spec.commandLine(), "--ids: expected numbers from 0 to " + (facts.vocabSize() - 1) + ", got " + text);
    }

    private void print(ModelFiles files, DeviceFlags.Opened opened, long tokens) {
        PrintWriter writer = spec.commandLine().getOut();
        if (json) {
            ObjectNode root = Jackson.object();
            root.put("model", name).put("architecture", files.architecture());
            root.put("device", opened.device().name()).put("tokens", tokens).put("out", out.toString());
            ReportOutput.json(writer, root);
            return;
        }
        writer.println("logits of " + tokens + " tokens written to " + Escaped.of(out));
        writer.flush();
    }
}
