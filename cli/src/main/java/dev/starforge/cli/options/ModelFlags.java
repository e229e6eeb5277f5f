package dev.starforge.cli.options;

import dev.starforge.cli.model.AdapterNote;
import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.output.Escaped;
import dev.starforge.train.run.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The flags of every verb that loads a model: what goes with the one that was named. */
public final class ModelFlags {
    public static final String KINDS =
            "A folder with config.json, safetensors and tokenizer.json, a .gguf file, the name of one that was pulled"
                + " or is in the HF cache, or what train wrote: a run (its best state), a checkpoint or an adapter.";

    public static final String KINDS_OR_DEFAULT =
            KINDS + " Default: what was tuned on this repository, else nano, which ships with the program.";

    public static final String WANTED =
            "Give a folder with config.json and safetensors, a .gguf file, or a run, a checkpoint or an adapter";

    @Spec(Spec.Target.MIXEE)
    private CommandSpec verb;

    @Option(
            names = "--adapter",
            paramLabel = "DIR",
            description = "A PEFT LoRA adapter to apply: its folder, a checkpoint or a run.")
    private Path adapter;

    @Option(
            names = "--base",
            paramLabel = "MODEL",
            description = "What to apply MODEL to where that is an adapter or a run. Default: the base that it names.")
    private String base;

    /** What a name stands for; says so where it is not the model itself. */
    public TunedModel find(String name) {
        TunedModel found = TunedModel.of(ModelLocator.find(name, WANTED), Optional.ofNullable(base), ModelFlags::base);
        PrintWriter err = verb.commandLine().getErr();
        describe(found, err);
        if (base != null && found.adapter().isEmpty()) {
            throw new ParameterException(
                    verb.commandLine(), "--base: is for an adapter, and " + name + " is a whole model; leave it out");
        }
        if (adapter != null) {
            if (found.adapter().isPresent()) {
                throw new ParameterException(
                        verb.commandLine(),
                        "--adapter: " + name
                                + " is an adapter already, and one can be applied; give the base as MODEL");
            }
            Path own = TunedModel.adapterOf(
                    adapter, "`starforge " + verb.name() + " " + adapter + "` takes it as the model");
            found = new TunedModel(found.model(), Optional.of(own), found.route());
        }
        found.adapter().ifPresent(each -> AdapterNote.noteBase(each, err));
        err.flush();
        return found;
    }

    /** The base of an adapter, by its name. */
    public static Path base(String name) {
        return ModelLocator.find(name, "Give it with --base MODEL");
    }

    /** Says what a name was found to stand for. */
    public static TunedModel describe(TunedModel found, PrintWriter err) {
        if (!found.route().isEmpty()) {
            err.println("model: " + Escaped.of(found.route()));
            err.flush();
        }
        return found;
    }
}
