package dev.starforge.serve.pool.process;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/** Starts processes that outlive this one, and finds them again. */
public interface ProcessLauncher {
    /** @param log output is appended to this file */
    ChildProcess start(List<String> command, Path log) throws IOException;

    /** The process with a pid, if it runs and has that identity. */
    Optional<ChildProcess> find(long pid, String identity);
}
