package dev.starforge.cli.process;

import dev.starforge.cli.hub.HubException;
import dev.starforge.model.ModelException;
import dev.starforge.tensor.TensorException;
import dev.starforge.text.FileException;
import dev.starforge.text.TokenizerException;
import dev.starforge.text.config.ConfigException;
import dev.starforge.train.TrainException;
import java.io.IOException;
import java.util.Map;
import picocli.CommandLine.Model.UsageMessageSpec;

/** How the program ends, the same for the same kind of end in every command; {@code doctor} alone has three answers of its own. */
public final class ExitCode {
    public static final int DONE = 0;

    /** A file is missing or broken, a device is, a proof does not hold: what was asked for could not be done. */
    public static final int FAILED = 1;

    /** A command, a flag or a setting that does not exist or has no such value: it cannot be done as it was asked for. */
    public static final int WRONG_USE = 2;

    /** As the shell has it for a process that SIGINT ended, 128 + 2; for SIGTERM the JVM says 143. */
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

    /** Whether somebody foresaw it; anything else is a defect of ours. */
    public static boolean foreseen(Exception failure) {
        return switch (failure) {
            case ConfigException _,
                    FileException _,
                    HubException _,
                    IOException _,
                    ShutdownCleanup.Interrupted _,
                    ModelException _,
                    TensorException _,
                    TokenizerException _,
                    TrainException _ -> true;
            default -> false;
        };
    }
}
