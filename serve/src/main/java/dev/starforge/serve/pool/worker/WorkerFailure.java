package dev.starforge.serve.pool.worker;

import java.time.Instant;
import java.util.Optional;

/**
 * The last failure of a worker.
 *
 * @param exit exit status of its last process; empty if none has exited
 * @param reason human-readable; empty if there is no failure
 * @param since start of the failure; empty while ready
 * @param restartSeconds time until the restart; negative if it will not be restarted
 * @param advice what an operator can do; empty if waiting is enough
 */
public record WorkerFailure(String exit, String reason, Optional<Instant> since, double restartSeconds, String advice) {
    public boolean isRetried() {
        return restartSeconds >= 0;
    }
}
