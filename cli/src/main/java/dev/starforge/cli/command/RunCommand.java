package dev.starforge.cli.command;

import dev.starforge.cli.chat.ReplSession;
import dev.starforge.cli.chat.SessionSettings;
import dev.starforge.cli.chat.TextGenerator;
import dev.starforge.cli.model.DefaultModel;
import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.process.CtrlC;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.StandardInput;
import dev.starforge.train.tune.TunedModel;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

@Command(
        name = "run",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        customSynopsis = "starforge run [MODEL] [OPTIONS]",
        description = {
            "Complete code or chat with a model at a prompt.",
            "",
            "A model with a chat template answers; other models continue the input. Input that contains "
                    + TextGenerator.CURSOR
                    + " is filled in at that position. Ctrl-C stops the generation, Ctrl-D or /bye exits. If standard"
                    + " input is not a terminal, all of it is one prompt.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge run                      # the model tuned on this repository",
            "  starforge run model.gguf --set temperature=0.2 --set max_tokens=64",
            "  echo 'int max(int a, int b) { return " + TextGenerator.CURSOR + "; }' | starforge run",
        })
final class RunCommand implements Callable<Integer> {
    private final StandardInput input;

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Mixin
    private ModelFlags models;

    @Parameters(paramLabel = "MODEL", arity = "0..1", description = ModelFlags.KINDS_OR_DEFAULT)
    private String name;

    @Option(
            names = "--set",
            paramLabel = "NAME=VALUE",
            description = "Initial value of a /set parameter: max_tokens, temperature, top_k, top_p, min_p,"
                    + " repetition_penalty or seed.")
    private List<String> settings = new ArrayList<>();

    @Option(
            names = "--token-healing",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "Allow prompts that end inside a token: the last tokens are generated again. Default: yes.")
    private boolean tokenHealing;

    RunCommand() {
        this(StandardInput.ofProcess());
    }

    RunCommand(StandardInput input) {
        this.input = input;
    }

    @Override
    public Integer call() throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        SessionSettings how = SessionSettings.USUAL;
        for (String setting : settings) {
            int at = setting.indexOf('=');
            try {
                how = how.with(setting.substring(0, Math.max(0, at)), setting.substring(at + 1));
            } catch (IllegalArgumentException wrong) {
                throw new ParameterException(spec.commandLine(), "--set " + setting + ": " + wrong.getMessage(), wrong);
            }
        }
        TunedModel tuned = models.find(
                DefaultModel.of(name, Path.of(""), spec.commandLine().getErr()));
        try (DeviceFlags.Opened opened = flags.open();
                TextGenerator answers =
                        new TextGenerator(tuned, opened.device(), flags.precision(), flags.fallback(), tokenHealing)) {
            if (!input.terminal()) {
                answers.answer(
                        input.text().replaceFirst("\\R\\z", ""), how.sampling(), how.maxTokens(), out, () -> false);
                return ExitCode.DONE;
            }
            BufferedReader lines = new BufferedReader(new InputStreamReader(input.bytes(), StandardCharsets.UTF_8));
            try (CtrlC ctrlC = CtrlC.watch()) {
                new ReplSession(answers, how, lines, out, ctrlC).run();
            }
        }
        return ExitCode.DONE;
    }
}
