package dev.starforge.cli.command;

import dev.starforge.cli.process.ExitCode;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

@Command(
        name = "version",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = {
            "Show the versions of the program and of Java.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge version",
        })
final class VersionCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        spec.commandLine().printVersionHelp(spec.commandLine().getOut());
        return ExitCode.DONE;
    }
}
