package dev.starforge.serve.pool.process;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/** Starts processes that outlive this one, and finds them again. */
public interface ProcessLauncher {
    /**
     * Starts a process.
     *
     * @param input what it reads from its standard input, up to 4096 bytes: command lines and environments can be read by other users
     * @param log output is appended to this file, which only its owner can read
     */
    ChildProcess start(List<String> command, String input, Path log) throws IOException;

    /** The process with a pid, if it runs and has that identity. */
    Optional<ChildProcess> find(long pid, String identity);
}
