package dev.starforge.serve.pool.route;

import dev.starforge.serve.pool.supervise.WorkerCandidate;
import dev.starforge.text.file.Hashes;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;

/**
 * Which of the workers that serve a model gets a request: the one that has seen most of its beginning, unless that one is much
 * busier than another; else the least busy one. A cached prefix saves its prefill, a crowded worker costs every token: so affinity
 * holds up to twice the least load and some.
 */
public final class WorkerRouting {
    private static final int CAPACITY = 1 << 17;
    private static final int SLACK = 4;

    private final PrefixTable prefixes = new PrefixTable(CAPACITY);
    private final LongAdder byPrefix = new LongAdder();
    private final LongAdder byLoad = new LongAdder();
    private int turn;

    /**
     * Chooses, and remembers it.
     *
     * @param scope whose cache it is: a prefix of another model, adapter or tenant is none
     * @param text what the worker will read first
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

    /** Of those that are as little busy, each in its turn. */
    private synchronized WorkerCandidate leastBusy(List<WorkerCandidate> candidates) {
        int first = turn++ & Integer.MAX_VALUE;
        int size = candidates.size();
        return IntStream.range(0, size)
                .mapToObj(i -> candidates.get((first + i) % size))
                .min(Comparator.comparingInt(WorkerCandidate::load))
                .orElseThrow();
    }

    /** Requests that went where their prefix is. */
    public long byPrefix() {
        return byPrefix.sum();
    }

    public long byLoad() {
        return byLoad.sum();
    }
}
