package dev.starforge.cli.options;

import dev.starforge.cli.model.AdapterNote;
import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.output.Escaped;
import dev.starforge.train.tune.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Options of commands that load a model: adapter and base. */
public final class ModelFlags {
    /** The kinds of models that a command accepts, for the description of its MODEL parameter. */
    public static final String KINDS =
            "Model: a folder with config.json, safetensors and tokenizer.json, a GGUF file, the name of a pulled model"
                    + " or of one in the HF cache, or a training run (best checkpoint), a checkpoint or an adapter.";

    public static final String KINDS_OR_DEFAULT =
            KINDS + " Default: the model tuned on this repository, or the embedded model nano.";

    /** The last sentence of the error for a missing model. */
    public static final String WANTED =
            "Expected a folder with config.json and safetensors, a GGUF file, a run, a checkpoint or an adapter";

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Option(
            names = "--adapter",
            paramLabel = "DIR",
            description = "PEFT LoRA adapter to apply: an adapter folder, a checkpoint or a run.")
    private Path adapter;

    @Option(
            names = "--base",
            paramLabel = "MODEL",
            description = "Base model, if MODEL is an adapter or a run. Default: the base named in the adapter.")
    private String base;

    /** Finds a model with its adapter, and prints their location if the name is not the model itself. */
    public TunedModel find(String name) {
        TunedModel found = TunedModel.of(ModelLocator.find(name, WANTED), Optional.ofNullable(base), ModelFlags::base);
        PrintWriter err = command.commandLine().getErr();
        describe(found, err);
        if (base != null && found.adapter().isEmpty()) {
            throw new ParameterException(
                    command.commandLine(), "--base: " + name + " is a complete model, not an adapter; omit --base");
        }
        if (adapter != null) {
            if (found.adapter().isPresent()) {
                throw new ParameterException(
                        command.commandLine(), "--adapter: " + name + " is already an adapter; pass its base as MODEL");
            }
            Path own = TunedModel.adapterOf(
                    adapter, "`starforge " + command.name() + " " + adapter + "` takes it as the model");
            found = new TunedModel(found.model(), Optional.of(own), found.route());
        }
        found.adapter().ifPresent(each -> AdapterNote.noteBase(each, err));
        err.flush();
        return found;
    }

    /** Finds the base of an adapter. */
    public static Path base(String name) {
        return ModelLocator.find(name, "Give it with --base MODEL");
    }

    /** Prints how a name was resolved. */
    public static TunedModel describe(TunedModel found, PrintWriter err) {
        if (!found.route().isEmpty()) {
            err.println("model: " + Escaped.of(found.route()));
            err.flush();
        }
        return found;
    }
}
