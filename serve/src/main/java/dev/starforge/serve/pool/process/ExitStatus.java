package dev.starforge.serve.pool.process;

import java.util.Map;

/**
 * Exit code of a process. A signal is 128 plus its number, as in shells. The code of a process that an earlier pool started is
 * unknown.
 */
public record ExitStatus(int code) {
    public static final ExitStatus UNKNOWN = new ExitStatus(-1);
    public static final int DRAINED = 0;
    public static final int WRONG_USE = 2;
    public static final int MODEL_REFUSED = 3;

    private static final int SIGNALS = 128;
    private static final Map<Integer, String> WORKER = Map.of(
            DRAINED,
            "drained",
            1,
            "failed",
            WRONG_USE,
            "usage error",
            MODEL_REFUSED,
            "model rejected",
            4,
            "device lost",
            5,
            "out of device memory",
            6,
            "callback failed");
    private static final Map<Integer, String> SIGNAL_NAMES = Map.of(
            1, "SIGHUP", 2, "SIGINT", 3, "SIGQUIT", 6, "SIGABRT", 7, "SIGBUS", 8, "SIGFPE", 11, "SIGSEGV", 15,
            "SIGTERM");

    /** Returns true if a restart can help: not after a drain, a usage error or a rejected model. */
    public boolean restarts() {
        return code != DRAINED && code != WRONG_USE && code != MODEL_REFUSED;
    }

    /** A human-readable description. */
    public String text() {
        if (this.equals(UNKNOWN)) {
            return "unknown: started by an earlier pool";
        }
        if (code == SIGNALS + 9) {
            return "137: out of memory (SIGKILL)";
        }
        String name = code > SIGNALS
                ? SIGNAL_NAMES.getOrDefault(code - SIGNALS, "signal " + (code - SIGNALS))
                : WORKER.getOrDefault(code, "failed");
        return code + ": " + name;
    }
}
