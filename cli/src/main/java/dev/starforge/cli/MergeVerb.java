package dev.starforge.cli;

import dev.starforge.model.LoraAdapter;
import dev.starforge.model.Merger;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.Device;
import dev.starforge.train.Checkpoints;
import dev.starforge.train.MergeProof;
import dev.starforge.train.TrainException;
import dev.starforge.train.TunedModel;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "merge",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        sortOptions = false,
        description = {
            "Adds an adapter to its base and writes one model: a folder with safetensors as HF has it, or a GGUF file",
            "as llama.cpp takes it. Unless --format or a name in .gguf says otherwise, the form is the base's own.",
            "",
            "The result is read back and proved: its logits are those of base + adapter, and not those of the base. Where",
            "they are not, nothing is left under the name that was asked for, and the exit code is 1.",
            "",
            "A run that trained every weight has no adapter: its model is written alone, and proved to be the trained one.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge merge RUN --out MERGED",
            "  starforge merge --config train.yaml",
            "  starforge merge RUN --out MERGED --onto stored",
            "  starforge merge ADAPTER --base MODEL --out MERGED --type bf16",
            "  starforge merge RUN --out MERGED.gguf --type f16",
            "  starforge merge ADAPTER --base MODEL.gguf --out MERGED.gguf",
            "  starforge merge ADAPTER --base MODEL.gguf --out MERGED --format hf --type bf16",
            "  starforge merge ADAPTER --base MODEL --gguf-adapter ADAPTER.gguf",
        })
final class MergeVerb implements Callable<Integer> {
    private static final long SHARD = 4L << 30;

    @Spec
    private CommandSpec spec;

    @Mixin
    private PlaceFlags place;

    @Mixin
    private SettingFlags settings;

    @Parameters(
            paramLabel = "ADAPTER",
            arity = "0..1",
            description = {
                "A folder with an adapter, a checkpoint, or a run (its best one). Default with --config: output.output_dir, and",
                "--out is then that name with -merged."
            })
    private Path adapter;

    @Option(
            names = "--base",
            paramLabel = "MODEL",
            description = "The base. Default: what the adapter names as its base.")
    private String base;

    @Option(
            names = "--onto",
            paramLabel = "NUMBERS",
            defaultValue = "trained",
            converter = Onto.Parser.class,
            description = {
                "Which numbers of the base are updated: `trained`, those that the adapter was trained on, decoded where it was",
                "trained on a quantized base, or `stored`, those of its file. Default: ${DEFAULT-VALUE}."
            })
    private Onto onto;

    @Option(names = "--out", paramLabel = "PATH", description = "A folder, or a .gguf file.")
    private Path out;

    @Option(
            names = "--format",
            paramLabel = "FORM",
            description = "hf or gguf. Default: gguf where --out ends in .gguf, else as the base is.")
    private String format;

    @Option(
            names = "--type",
            paramLabel = "TYPE",
            defaultValue = "",
            description = {
                "How matrices are written: F32, BF16 or F16; from GGUF to GGUF those that change. Default: as the base has them,",
                "so that those of a quantized file are quantized anew, which may cost more than the proof allows; F32 where a",
                "GGUF base becomes a folder."
            })
    private String type;

    @Option(names = "--gguf-adapter", paramLabel = "FILE", description = "Write the adapter alone, for llama.cpp.")
    private Path ggufAdapter;

    @Option(names = "--shard-bytes", paramLabel = "N", description = "Largest file of a folder. Default: 4 GiB.")
    private long shardBytes = SHARD;

    @Option(names = "--json", description = "For machines.")
    private boolean json;

    /** Which numbers of a base an adapter is added to. */
    private enum Onto {
        TRAINED,
        STORED;

        static final class Parser implements CommandLine.ITypeConverter<Onto> {
            @Override
            public Onto convert(String given) {
                return switch (given) {
                    case "trained" -> TRAINED;
                    case "stored" -> STORED;
                    default ->
                        throw new CommandLine.TypeConversionException("expected trained or stored, got " + given);
                };
            }
        }
    }

    /** A file of settings says where the run is, and where to compute. */
    private void takeSettings() {
        RunConfig config = settings.flags(settings.file(RunConfig.defaults()), List.of());
        place.otherwise(config);
        if (adapter != null) {
            return;
        }
        if (!settings.hasFile() && !config.isSet(Keys.OUTPUT)) {
            throw new ParameterException(spec.commandLine(), "Missing required parameter: 'ADAPTER'");
        }
        adapter = config.output();
        if (out == null && ggufAdapter == null) {
            out = adapter.resolveSibling(adapter.getFileName() + "-merged");
        }
    }

    @Override
    public Integer call() throws IOException {
        takeSettings();
        if (out == null && ggufAdapter == null) {
            throw new ParameterException(spec.commandLine(), "expected --out, --gguf-adapter or both");
        }
        if (!List.of("", "F32", "BF16", "F16").contains(type.toUpperCase(Locale.ROOT)) || shardBytes < 1) {
            throw new ParameterException(
                    spec.commandLine(), "--type: expected F32, BF16 or F16; --shard-bytes: expected at least 1");
        }
        if (out == null && (format != null || !type.isEmpty())) {
            throw new ParameterException(
                    spec.commandLine(), "--type and --format: say how --out is written, which is missing");
        }
        if (format != null && !List.of("hf", "gguf").contains(format)) {
            throw new ParameterException(spec.commandLine(), "--format: expected hf or gguf, got " + format);
        }
        if (out != null) {
            OutPath.require("--out", out, spec.commandLine());
        }
        if (ggufAdapter != null) {
            OutPath.require("--gguf-adapter", ggufAdapter, spec.commandLine());
        }
        Path trained = Checkpoints.resolve(adapter);
        if (TrainedModel.isOne(trained)) {
            return write(trained);
        }
        Path updates = TunedModel.adapterOf(
                adapter,
                "it can be used as it is, and `starforge export " + adapter
                        + " --out NAME.gguf` makes a GGUF file of it");
        Path model = TunedModel.baseOf(updates, Optional.ofNullable(base), ModelFlags::base);
        ObjectNode report = Json.object();
        Quantization trainedOn = LoraAdapter.trainedOn(updates);
        Quantization numbers = onto == Onto.TRAINED ? trainedOn : Quantization.NONE;
        report.put("base", model.toString()).put("adapter", updates.toString());
        report.put("trained_on", trainedOn.toString()).put("merged_onto", numbers.toString());
        try (Interruption _ = Interruption.removing(
                        out == null ? ggufAdapter : out, spec.commandLine().getErr());
                Device device = place.open(place.choose(), false)) {
            try (Merger merger = new Merger(model, updates, numbers, device)) {
                if (ggufAdapter != null) {
                    merger.writeGgufAdapter(ggufAdapter);
                    report.put("gguf_adapter", ggufAdapter.toString());
                }
                if (out != null) {
                    merge(merger, model, updates, numbers, device, report);
                }
            }
        }
        print(report);
        return 0;
    }

    /** A model whose every weight was trained has nothing to merge: it is written as it is, in the form that is asked for. */
    private int write(Path trained) throws IOException {
        if (out == null || base != null || onto == Onto.STORED) {
            throw new ParameterException(
                    spec.commandLine(),
                    trained + ": every weight was trained, there is no adapter: only --out, --format, --type and "
                            + "--shard-bytes say how it is written");
        }
        boolean gguf = format != null ? format.equals("gguf") : out.toString().endsWith(".gguf");
        try (Device device = place.open(place.choose(), false)) {
            print(new TrainedModel(trained, type.toUpperCase(Locale.ROOT), shardBytes, device).write(out, gguf));
        }
        return 0;
    }

    /** Under another name until it is proved. */
    private void merge(Merger merger, Path model, Path updates, Quantization numbers, Device device, ObjectNode report)
            throws IOException {
        boolean ggufBase = !Files.isDirectory(model);
        boolean gguf = format != null
                ? format.equals("gguf")
                : ggufBase || out.toString().endsWith(".gguf");
        if (gguf && !out.toString().endsWith(".gguf")) {
            throw new ParameterException(spec.commandLine(), "--out " + out + ": expected a name in .gguf");
        }
        List<String> notes = new ArrayList<>();
        Path partial = out.resolveSibling(".partial-" + out.getFileName() + (gguf ? ".gguf" : ""));
        remove(partial);
        try {
            String stored = type.toUpperCase(Locale.ROOT);
            if (gguf && ggufBase) {
                merger.writeGguf(partial, stored);
            } else if (gguf) {
                notes.addAll(merger.exportGguf(partial, stored, Tokenizers.metadata(model)));
                if (Tokenizers.find(model).isEmpty()) {
                    notes.add("the base has no tokenizer.json, so the file has no vocabulary");
                }
            } else {
                merger.writeFolder(partial, stored, shardBytes);
                if (ggufBase && !Tokenizers.writeJson(model, partial)) {
                    notes.add(
                            "there is no tokenizer.json: the vocabulary has scores, which that form has not, or is missing");
                }
            }
            MergeProof proof = MergeProof.of(model, updates, numbers, partial, device);
            report.put("out", out.toString()).put("format", gguf ? "gguf" : "hf");
            if (!notes.isEmpty()) {
                report.put("note", String.join("; ", notes));
            }
            report.put("logits_range", proof.range());
            report.put("largest_difference_to_base_plus_adapter", proof.error());
            report.put("largest_difference_to_base", proof.change());
            report.put("bound", proof.bound() * proof.range());
            report.put("tokens_compared", proof.tokens());
            report.put("tokens_within_bound", proof.agreeing());
            report.put("proved", proof.holds());
            report.put("verdict", proof.verdict());
            if (!proof.holds()) {
                throw new TrainException(out + ": " + proof.verdict()
                        + (gguf && type.isEmpty() && proof.change() > 0
                                ? "; what is quantized anew loses most, --type BF16 keeps it"
                                : ""));
            }
            Files.move(partial, out, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            remove(partial);
        }
    }

    private void print(ObjectNode report) {
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            Json.print(out, report);
            return;
        }
        report.properties()
                .forEach(entry ->
                        out.println(entry.getKey() + ": " + entry.getValue().asString()));
        out.flush();
    }

    static void remove(Path path) throws IOException {
        if (Files.exists(path)) {
            try (Stream<Path> tree = Files.walk(path)) {
                for (Path each : tree.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(each);
                }
            }
        }
    }
}
