package dev.starforge.serve.pool.process;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/** Starts processes that outlive the one that starts them, and finds them again. */
public interface ProcessLauncher {
    /** @param log takes what it prints; appended to */
    ChildProcess start(List<String> command, Path log) throws IOException;

    /** The process of a pid, if it lives and is the one of that identity. */
    Optional<ChildProcess> find(long pid, String identity);
}
