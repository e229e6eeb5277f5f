package dev.starforge.serve.pool.process;

import java.util.Optional;

/** A process that is ours: started here, or by an earlier pool and recognized. Only such are ever signalled. */
public interface ChildProcess {
    long pid();

    /** What no later process with the same pid has; see {@link SystemLauncher}. */
    String identity();

    /** How it ended; empty while it lives. */
    Optional<ExitStatus> exit();

    /** Whether {@link #terminate} asks, so that the process can end in order; where not, it must be asked over HTTP. */
    boolean canTerminate();

    void terminate();

    void kill();
}
