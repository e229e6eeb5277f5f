package dev.starforge.serve.pool.route;

import dev.starforge.serve.pool.supervise.WorkerCandidate;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Maps prompt prefixes to the worker that computed them last. A prompt is split into chunks; each chunk has the hash of the prefix up to
 * its end, as in the prefix cache of a worker. Least recently used entries are evicted.
 */
final class PrefixTable {
    /** Characters of a chunk: about the 16 tokens of a KV block. */
    static final int CHUNK = 64;

    private static final int MAX_CHUNKS = 1024;
    private static final long MULTIPLIER = 0x9E3779B97F4A7C15L;

    private final Map<Long, String> last;

    PrefixTable(int capacity) {
        last = new LinkedHashMap<>(16, 0.75f, true) {
            private static final long serialVersionUID = 1;

            @Override
            protected boolean removeEldestEntry(Map.Entry<Long, String> eldest) {
                return size() > capacity;
            }
        };
    }

    /** The prefix hashes of the complete chunks of a prompt. */
    static long[] hashes(long seed, String text) {
        int count = Math.min(text.length() / CHUNK, MAX_CHUNKS);
        long[] hashes = new long[count];
        long hash = seed;
        for (int i = 0; i < count; i++) {
            for (int j = i * CHUNK; j < (i + 1) * CHUNK; j++) {
                hash = (hash ^ text.charAt(j)) * MULTIPLIER;
                hash ^= hash >>> 29;
            }
            hashes[i] = hash;
        }
        return hashes;
    }

    /** The number of leading chunks that each candidate has computed. */
    synchronized Map<WorkerCandidate, Integer> seen(long[] hashes, List<WorkerCandidate> candidates) {
        Map<String, WorkerCandidate> byStart = new HashMap<>();
        candidates.forEach(each -> byStart.put(each.incarnation(), each));
        Map<WorkerCandidate, Integer> seen = new HashMap<>();
        for (int i = 0; i < hashes.length; i++) {
            String start = last.get(hashes[i]);
            WorkerCandidate candidate = start == null ? null : byStart.get(start);
            if (start == null) {
                break;
            }
            if (candidate != null) {
                seen.put(candidate, i + 1);
            }
        }
        return seen;
    }

    synchronized void put(long[] hashes, WorkerCandidate candidate) {
        for (long hash : hashes) {
            last.put(hash, candidate.incarnation());
        }
    }
}
