package dev.starforge.cli.command;

import dev.starforge.cli.process.ExitCode;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.AutoComplete;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Generates the script from the same option tables as the help pages. */
@Command(
        name = "completion",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Print a completion script for bash, zsh or fish.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  source <(starforge completion bash)        # in ~/.bashrc",
            "  source <(starforge completion zsh)         # in ~/.zshrc",
            "  starforge completion fish > ~/.config/fish/completions/starforge.fish",
        })
final class CompletionCommand implements Callable<Integer> {
    private enum Shell {
        BASH,
        ZSH,
        FISH
    }

    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "SHELL", description = "Shell: bash, zsh or fish.")
    private Shell shell;

    @Override
    public Integer call() {
        CommandLine all = spec.root().commandLine();
        PrintWriter out = spec.commandLine().getOut();
        switch (shell) {
            case BASH -> out.println(AutoComplete.bash("starforge", all));
            case ZSH -> {
                out.println("autoload -U +X compinit && compinit");
                out.println("autoload -U +X bashcompinit && bashcompinit");
                out.println(AutoComplete.bash("starforge", all));
            }
            case FISH -> fish(all).forEach(out::println);
        }
        out.flush();
        return ExitCode.DONE;
    }

    private static List<String> fish(CommandLine all) {
        List<String> lines = new ArrayList<>();
        for (Map.Entry<String, CommandLine> subcommand : all.getSubcommands().entrySet()) {
            CommandSpec command = subcommand.getValue().getCommandSpec();
            if (command.usageMessage().hidden()) {
                continue;
            }
            lines.add("complete -c starforge -n __fish_use_subcommand -f -a " + command.name()
                    + text(command.usageMessage().description()));
            for (OptionSpec option : command.options()) {
                if (option.hidden()) {
                    continue;
                }
                for (String name : option.names()) {
                    lines.add("complete -c starforge -n '__fish_seen_subcommand_from " + command.name() + "' "
                            + (name.startsWith("--") ? "-l " + name.substring(2) : "-s " + name.substring(1))
                            + (option.arity().max() > 0 ? " -r" : "")
                            + text(option.description()));
                }
            }
        }
        return lines;
    }

    private static String text(String... description) {
        return description.length == 0
                ? ""
                : " -d '" + description[0].replace("\\", "\\\\").replace("'", "\\'") + "'";
    }
}
