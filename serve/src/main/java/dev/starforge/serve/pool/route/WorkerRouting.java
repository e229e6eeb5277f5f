package dev.starforge.serve.pool.route;

import dev.starforge.serve.pool.supervise.WorkerCandidate;
import dev.starforge.text.file.Hashes;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;

/**
 * Prefix-aware routing: a request goes to the worker with the longest cached prefix, unless its load exceeds twice the least load plus
 * {@link #SLACK}; else to the least loaded worker. A cached prefix saves prefill; load slows down every token.
 */
public final class WorkerRouting {
    private static final int CAPACITY = 1 << 17;
    private static final int SLACK = 4;

    private final PrefixTable prefixes = new PrefixTable(CAPACITY);
    private final LongAdder byPrefix = new LongAdder();
    private final LongAdder byLoad = new LongAdder();
    private int turn;

    /**
     * Chooses a worker and records the prefix.
     *
     * @param scope tenant and model: prefixes are not shared between scopes
     * @param text the prompt
     */
    public WorkerCandidate choose(String scope, String text, List<WorkerCandidate> candidates) {
        long[] hashes = PrefixTable.hashes(Hashes.first64(scope), text);
        int least = candidates.stream().mapToInt(WorkerCandidate::load).min().orElseThrow();
        WorkerCandidate chosen = prefixes.seen(hashes, candidates).entrySet().stream()
                .filter(each -> each.getKey().load() <= 2 * least + SLACK)
                .max(Map.Entry.comparingByValue())
                .map(Map.Entry::getKey)
                .orElse(null);
        (chosen == null ? byLoad : byPrefix).increment();
        if (chosen == null) {
            chosen = leastBusy(candidates);
        }
        prefixes.put(hashes, chosen);
        return chosen;
    }

    /** The least loaded worker; round-robin among equals. */
    private synchronized WorkerCandidate leastBusy(List<WorkerCandidate> candidates) {
        int first = turn++ & Integer.MAX_VALUE;
        int size = candidates.size();
        return IntStream.range(0, size)
                .mapToObj(i -> candidates.get((first + i) % size))
                .min(Comparator.comparingInt(WorkerCandidate::load))
                .orElseThrow();
    }

    /** Requests routed by prefix. */
    public long byPrefix() {
        return byPrefix.sum();
    }

    public long byLoad() {
        return byLoad.sum();
    }
}
