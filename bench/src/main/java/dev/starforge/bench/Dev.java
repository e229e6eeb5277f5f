package dev.starforge.bench;

import dev.starforge.bench.dataset.DatasetCommands;
import dev.starforge.bench.fuzz.FuzzCommand;
import dev.starforge.bench.page.PageCheck;
import dev.starforge.bench.serve.ServerCommands;
import dev.starforge.bench.train.ConfigPage;
import dev.starforge.bench.train.TrainSpeed;
import dev.starforge.bench.train.TuneCheck;
import dev.starforge.bench.train.TuneSweep;
import java.nio.file.Path;
import picocli.CommandLine;
import picocli.CommandLine.Command;

/** The Java programs that {@code ./dev} starts, one subcommand each. */
@Command(
        name = "./dev",
        mixinStandardHelpOptions = true,
        subcommands = {
            ConformanceCommand.class,
            JmhCommand.class,
            DatasetCommands.DatasetSpeedCommand.class,
            DatasetCommands.TokenizerSpeedCommand.class,
            DatasetCommands.SecretsScoreCommand.class,
            FuzzCommand.class,
            ServerCommands.Load.class,
            ServerCommands.Soak.class,
            ServerCommands.Fuzz.class,
            ServerCommands.SoakPool.class,
            ServerCommands.PoolHits.class,
            ServerCommands.Fake.class,
            TrainSpeed.class,
            TuneCheck.class,
            TuneSweep.class,
            ConfigPage.class,
            PageCheck.class,
            Transcripts.class
        })
public final class Dev {
    private Dev() {}

    /** The command line. Relative paths in arguments are resolved against {@code folder}. */
    static CommandLine commandLine(Path folder) {
        CommandLine commandLine = new CommandLine(new Dev());
        commandLine.getSubcommands().get("jmh").setUnmatchedOptionsArePositionalParams(true);
        return commandLine.registerConverter(
                Path.class,
                argument -> folder.resolve(argument).toAbsolutePath().normalize());
    }

    public static void main(String[] args) {
        Path folder = Path.of(System.getProperty("dev.folder", ""));
        System.exit(commandLine(folder).execute(args));
    }
}
