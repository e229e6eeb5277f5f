package dev.starforge.serve.pool.supervise;

import java.time.Instant;
import java.util.Optional;

/**
 * What went wrong with a worker last.
 *
 * @param exit how its last process ended; empty if none has
 * @param reason for people; empty if nothing went wrong
 * @param since when it has not been ready; empty while it is
 * @param restartSeconds until it is started again; below 0 when that is not to happen
 * @param advice what somebody can do about it; empty where waiting is enough
 */
public record WorkerFailure(String exit, String reason, Optional<Instant> since, double restartSeconds, String advice) {
    public boolean isRetried() {
        return restartSeconds >= 0;
    }
}
