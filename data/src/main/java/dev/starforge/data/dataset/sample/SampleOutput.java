package dev.starforge.data.dataset.sample;

import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.dedup.WordHashes;
import dev.starforge.data.dataset.redact.RedactedBlobs;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.text.TokenIdList;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.eclipse.jgit.lib.ObjectId;

/** Encodes the samples of one worker and collects them until the batch is taken. */
final class SampleOutput {
    /** The ids of a sample, and for each whether it counts in the loss. */
    record EncodedSample(int[] ids, boolean[] counted) {}

    private final DatasetConfig config;
    private final SampleFormat format;
    private final LeakDetector leaks;
    private final RedactedBlobs blobs;
    private List<SampleWorker.TokenizedSample> samples = new ArrayList<>();
    private int tooLong;
    private int withoutLoss;

    SampleOutput(DatasetConfig config, SampleFormat format, LeakDetector leaks, RedactedBlobs blobs) {
        this.config = config;
        this.format = format;
        this.leaks = leaks;
        this.blobs = blobs;
    }

    /** A generator that depends on the seed and the id alone, so that the order of work does not matter. */
    SplittableRandom random(String id) {
        return new SplittableRandom(
                WordHashes.mix(config.seed()) ^ WordHashes.of(id).hash());
    }

    /** The content of a blob with secrets redacted; empty if it is too large to be read. */
    String redacted(String blob) throws IOException {
        return new String(blobs.read(ObjectId.fromString(blob)).orElse(new byte[0]), StandardCharsets.UTF_8);
    }

    int tokens(List<SampleFormat.SampleSpan> spans) {
        TokenIdList ids = new TokenIdList();
        spans.forEach(span -> format.encode(span, ids));
        return ids.size();
    }

    int tokens(String text) {
        return tokens(List.of(new SampleFormat.SampleSpan(false, text, false)));
    }

    /** The spans as they are encoded: in held-out samples, boilerplate does not count in the loss. */
    List<SampleFormat.SampleSpan> masked(Split split, List<SampleFormat.SampleSpan> spans) {
        if (split == Split.TRAIN || !leaks.hasBoilerplate()) {
            return spans;
        }
        List<SampleFormat.SampleSpan> result = new ArrayList<>();
        for (SampleFormat.SampleSpan span : spans) {
            if (span.special() || !span.counted()) {
                result.add(span);
                continue;
            }
            String text = span.text();
            boolean[] boilerplate = leaks.boilerplateMask(text);
            for (int from = 0, to; from < text.length(); from = to) {
                to = from + 1;
                while (to < text.length() && boilerplate[to] == boilerplate[from]) {
                    to++;
                }
                result.add(new SampleFormat.SampleSpan(false, text.substring(from, to), !boilerplate[from]));
            }
        }
        return result;
    }

    EncodedSample encode(Split split, List<SampleFormat.SampleSpan> all) {
        List<SampleFormat.SampleSpan> spans = masked(split, all);
        TokenIdList ids = new TokenIdList();
        int[] ends = new int[spans.size()];
        for (int i = 0; i < ends.length; i++) {
            format.encode(spans.get(i), ids);
            ends[i] = ids.size();
        }
        boolean[] counted = new boolean[ids.size()];
        for (int i = 0, from = 0; i < ends.length; from = ends[i++]) {
            Arrays.fill(counted, from, ends[i], spans.get(i).counted());
        }
        return new EncodedSample(ids.toArray(), counted);
    }

    /**
     * Adds a sample, or only counts it if training could not learn from it.
     *
     * @param blobs the file contents that the sample shows parts of
     */
    void add(Split split, String id, SampleOrigin origin, List<String> blobs, EncodedSample encoded) {
        TokenDocument document = new TokenDocument(id, encoded.ids, encoded.counted);
        if (document.lossTokens() == 0) {
            withoutLoss++;
            return;
        }
        samples.add(new SampleWorker.TokenizedSample(split, document, origin, blobs));
    }

    /** Counts content that exceeds the context length even in a document of its own. */
    void addTooLong() {
        tooLong++;
    }

    /** The samples since the last {@link #take}; the list may be edited. */
    List<SampleWorker.TokenizedSample> samples() {
        return samples;
    }

    /** Returns the collected batch and begins a new one. */
    SampleWorker.SampleBatch take() {
        SampleWorker.SampleBatch batch = new SampleWorker.SampleBatch(samples, tooLong, withoutLoss);
        samples = new ArrayList<>();
        tooLong = 0;
        withoutLoss = 0;
        return batch;
    }

    static String folder(String path) {
        return path.substring(0, Math.max(0, path.lastIndexOf('/')));
    }
}
