package dev.starforge.cli.command;

import dev.starforge.cli.hub.ModelStore;
import dev.starforge.cli.model.Environment;
import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.options.ApiKeys;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.FatalErrors;
import dev.starforge.cli.process.LauncherCommand;
import dev.starforge.serve.http.ListenException;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogFormat;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.serve.pool.Pool;
import dev.starforge.serve.pool.PoolKeys;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.config.PoolFile;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.file.PrivateFiles;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

@Command(
        name = "pool",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = {
            "Run workers for several models and route requests to them.",
            "",
            "Starts and supervises the workers of the configuration file, and forwards each request to a worker that"
                    + " serves its model.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge pool --config pool.yaml",
            "  starforge pool --config pool.yaml --listen 127.0.0.1:9300",
        },
        sortOptions = false)
final class PoolCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--config",
            required = true,
            paramLabel = "FILE",
            description = "Configuration file with models, workers and limits.")
    private Path file;

    @Option(
            names = "--listen",
            paramLabel = "HOST:PORT",
            description = "Address to listen on; port 0 chooses a free port and prints it. Default: the address in the"
                    + " configuration file, or 127.0.0.1:9200.")
    private String listen;

    @Option(
            names = "--log-level",
            defaultValue = "info",
            paramLabel = "LEVEL",
            description = "Log level: debug, info, warn or error. Default: info.")
    private LogLevel level;

    @Option(names = "--verbose", description = "Same as --log-level debug.")
    private boolean verbose;

    @Override
    public Integer call() throws IOException, InterruptedException {
        ModelStore store = Environment.system().store();
        PoolConfig read = PoolFile.read(file, state(), name -> ModelLocator.named(name, store));
        PoolConfig config = listen == null ? read : read.withListen(listen);
        List<Path> keyFiles = Stream.of(config.apiKeyFile(), config.adminKeyFile())
                .flatMap(Optional::stream)
                .toList();
        rejectWriters(file);
        for (Path each : keyFiles) {
            rejectWriters(each);
        }
        PoolKeys keys =
                new PoolKeys(keys("api_key_file", config.apiKeyFile()), keys("admin_key_file", config.adminKeyFile()));
        PrintWriter err = spec.commandLine().getErr();
        EventLog log = new EventLog(
                line -> {
                    err.println(line);
                    err.flush();
                },
                System.console() != null ? LogFormat.PLAIN : LogFormat.JSON,
                verbose ? LogLevel.DEBUG : level,
                Clock.systemUTC(),
                keys.all(),
                Map.of("pool_id", config.id()));
        FatalErrors.install(err);
        warnOfReaders(keyFiles, log);
        try (Pool pool = Pool.start(config, LauncherCommand.command(), keys, log)) {
            Thread hook = Thread.ofPlatform().unstarted(() -> {
                pool.drain();
                Runtime.getRuntime().halt(ExitCode.DONE);
            });
            Runtime.getRuntime().addShutdownHook(hook);
            PrintWriter out = spec.commandLine().getOut();
            out.println("pool " + config.id() + " at " + pool.uri());
            out.println("  OpenAI clients: base_url " + pool.uri() + "/v1; watch it in a browser: " + pool.uri());
            out.flush();
            pool.await();
            return ExitCode.DONE;
        } catch (ListenException failed) {
            throw new IOException(
                    failed.getMessage() + (failed.isPortInUse() ? "; choose another with --listen HOST:PORT" : ""),
                    failed);
        } catch (IllegalArgumentException unusable) { // a reachable address without API keys
            throw new ParameterException(spec.commandLine(), String.valueOf(unusable.getMessage()), unusable);
        }
    }

    /** Keys that every user of the machine can read protect from other machines alone. */
    private static void warnOfReaders(List<Path> files, EventLog log) throws IOException {
        for (Path each : files) {
            if (PrivateFiles.othersMay('r', each)) {
                log.line(LogLevel.WARN, "pool", "check", each.toString())
                        .log(each + ": all users of this machine can read these keys; chmod 600 makes them private");
            }
        }
    }

    /** A user who can write the config or its keys decides which programs get the requests of clients. */
    private static void rejectWriters(Path each) throws IOException {
        if (Files.exists(each) && PrivateFiles.othersMay('w', each)) {
            throw new ConfigException(each + ": all users of this machine can write this file; chmod o-w prevents it");
        }
    }

    private List<String> keys(String setting, Optional<Path> keyFile) {
        return ApiKeys.read(file + ": pool." + setting, keyFile.orElse(null), ConfigException::new);
    }

    private static Path state() {
        String home = System.getenv("XDG_STATE_HOME");
        Path states = home == null || home.isEmpty()
                ? Path.of(System.getProperty("user.home"), ".local", "state")
                : Path.of(home);
        return states.resolve("starforge").resolve("pool");
    }
}
