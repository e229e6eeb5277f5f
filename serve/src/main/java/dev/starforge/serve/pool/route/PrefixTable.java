package dev.starforge.serve.pool.route;

import dev.starforge.serve.pool.supervise.WorkerCandidate;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Which worker has seen how much of a text. A text is cut into pieces, and each piece has the hash of all up to its end, so two texts
 * share as many hashes as they share pieces from the beginning; that is how a KV cache keeps prefixes, too. The oldest are forgotten.
 */
final class PrefixTable {
    /** About what sixteen tokens of code are, the block of the cache. */
    static final int PIECE = 64;

    private static final int MOST_PIECES = 1024;
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

    /** The hashes of a text's whole pieces; what is short of one is not worth going anywhere for. */
    static long[] hashes(long seed, String text) {
        int count = Math.min(text.length() / PIECE, MOST_PIECES);
        long[] hashes = new long[count];
        long hash = seed;
        for (int i = 0; i < count; i++) {
            for (int j = i * PIECE; j < (i + 1) * PIECE; j++) {
                hash = (hash ^ text.charAt(j)) * MULTIPLIER;
                hash ^= hash >>> 29;
            }
            hashes[i] = hash;
        }
        return hashes;
    }

    /** How many pieces from the beginning each of the candidates has seen. */
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
