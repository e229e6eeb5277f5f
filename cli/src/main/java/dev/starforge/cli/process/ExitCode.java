package dev.starforge.cli.process;

import dev.starforge.cli.hub.HubException;
import dev.starforge.model.ModelException;
import dev.starforge.tensor.TensorException;
import dev.starforge.text.FileException;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.config.ConfigException;
import dev.starforge.train.TrainException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.InvalidPathException;
import java.util.Map;
import picocli.CommandLine.Model.UsageMessageSpec;

/** Exit codes of all commands except {@code doctor}, which has its own. */
public final class ExitCode {
    public static final int DONE = 0;

    /** The command failed, e.g. because of a missing or invalid file, a device or a failed comparison. */
    public static final int FAILED = 1;

    /** Invalid command, option or setting. */
    public static final int WRONG_USE = 2;

    /** SIGINT, 128 + 2; for SIGTERM the JVM exits with 143. */
    public static final int INTERRUPTED = 130;

    private ExitCode() {}

    /** For the help text. */
    public static Map<String, String> table() {
        return UsageMessageSpec.keyValuesMap(
                DONE + ":done",
                FAILED + ":failed, e.g. a missing or invalid file; the last line has the reason",
                WRONG_USE + ":invalid command line or setting",
                INTERRUPTED + ":interrupted (SIGINT); 143 for SIGTERM");
    }

    public static int of(Exception failure) {
        return switch (failure) {
            case ConfigException _ -> WRONG_USE;
            case ShutdownCleanup.Interrupted _ -> INTERRUPTED;
            default -> FAILED;
        };
    }

    /** Returns true for expected failures; other exceptions are defects. */
    public static boolean foreseen(Exception failure) {
        return switch (failure) {
            case ConfigException _,
                    FileException _,
                    HubException _,
                    IOException _,
                    InvalidPathException _,
                    ShutdownCleanup.Interrupted _,
                    ModelException _,
                    TensorException _,
                    TokenizerException _,
                    TrainException _,
                    UncheckedIOException _ -> true;
            default -> false;
        };
    }
}
