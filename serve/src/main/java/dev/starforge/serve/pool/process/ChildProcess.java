package dev.starforge.serve.pool.process;

import java.util.Optional;

/** A process started by this pool, or by an earlier one and identified. Only such processes are signalled. */
public interface ChildProcess {
    long pid();

    /** Distinguishes the process from a later one with the same pid; see {@link SystemLauncher}. */
    String identity();

    /** The exit status; empty while it runs. */
    Optional<ExitStatus> exit();

    /** Returns true if {@link #terminate} allows a graceful shutdown; if not, use HTTP. */
    boolean canTerminate();

    void terminate();

    void kill();
}
