package dev.starforge.data.dataset.chunk;

import java.util.Map;
import java.util.TreeMap;

/** Counts of files, chunks and documents that are not used, by reason. */
public final class DropReasons {
    /** A file of the training snapshot that is similar to another one. */
    public static final String SIMILAR_FILE = "similar_file";

    /** A file of the training snapshot that shares a window with held-out text. */
    public static final String LEAKING_FILE = "leaking_file";

    /** A training document in which only the final check of the written shards found a leak. */
    public static final String LEAKING_DOCUMENT = "leaking_document";

    /** Content that exceeds the context length even in a document of its own. */
    public static final String TOO_LONG_SAMPLE = "too_long_sample";

    /** A document without a token that counts in the loss, such as a commit that only deletes. */
    public static final String NO_LOSS_SAMPLE = "no_loss_sample";

    private final Map<String, Long> counts = new TreeMap<>();

    public void add(String reason, long count) {
        if (count > 0) {
            counts.merge(reason, count, Long::sum);
        }
    }

    public long count(String reason) {
        return counts.getOrDefault(reason, 0L);
    }

    public Map<String, Long> counts() {
        return counts;
    }
}
