package dev.starforge.data.dataset.sample;

import dev.starforge.data.DatasetException;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.dataset.chunk.CodeChunk;
import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.history.HistoryWorker;
import dev.starforge.data.dataset.io.ParallelMap;
import dev.starforge.data.dataset.parse.ParserPool;
import dev.starforge.data.dataset.redact.RedactedBlobs;
import dev.starforge.data.dataset.redact.Redactor;
import dev.starforge.data.dataset.split.LeakDetector;
import dev.starforge.data.git.CommitReader;
import dev.starforge.data.git.GitHistory;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.util.List;
import java.util.SplittableRandom;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevCommit;

/**
 * Turns commits, changed functions and files into tokenized documents, none longer than the context length. The random
 * choices for a document depend on the seed and its id alone, so the order of work does not matter. Added lines and whole
 * files count in the loss; context that is only shown does not.
 */
public final class SampleWorker
        implements ParallelMap.BatchWorker<List<SampleWorker.SampleTask>, SampleWorker.SampleBatch> {
    /** Prefix of the document ids of chunks. */
    public static final String CHUNK = "chunk-";

    /** The input of one or more documents. */
    public sealed interface SampleTask {}

    /**
     * The kept chunks of a commit.
     *
     * @param chunks one JSON object each
     */
    public record CommitTask(Split split, ObjectId commit, List<String> chunks) implements SampleTask {}

    /** Files of a tree that go into one document, if they fit. */
    public record FilesTask(String commit, long time, List<TreeFile> files) implements SampleTask {}

    public record TreeFile(String path, ObjectId blob) {}

    /**
     * A document and its origin.
     *
     * @param blobs the file contents that the document shows parts of
     */
    public record TokenizedSample(Split split, TokenDocument document, SampleOrigin origin, List<String> blobs) {}

    /**
     * The documents of some tasks.
     *
     * @param tooLong how many pieces of content exceed the context length even alone
     * @param withoutLoss how many documents have no token that counts in the loss
     */
    public record SampleBatch(List<TokenizedSample> samples, int tooLong, int withoutLoss) {}

    /** A commit's redacted message and its kept chunks. */
    record CommitChanges(Split split, String id, long time, String subject, String body, List<CodeChunk> chunks) {}

    private final CommitReader reader;
    private final DatasetConfig config;
    private final SampleOutput out;
    private final CommitSampler commits;
    private final FimSampler chunks;
    private final FileSampler files;
    private final Runnable advance;

    /** @param advance called after every task, from any worker thread */
    public SampleWorker(
            CommitReader reader,
            DatasetConfig config,
            SampleFormat format,
            ParserPool parsers,
            LeakDetector leaks,
            Runnable advance) {
        this.reader = reader;
        this.config = config;
        this.advance = advance;
        out = new SampleOutput(config, format, leaks, new RedactedBlobs(reader.blobs()));
        commits = new CommitSampler(config, format, out);
        chunks = new FimSampler(config, format, out);
        files = new FileSampler(config, format, parsers, out);
    }

    @Override
    public SampleBatch apply(List<SampleTask> tasks) {
        for (SampleTask task : tasks) {
            try {
                switch (task) {
                    case CommitTask commit -> sample(read(commit));
                    case FilesTask group -> files.sample(group);
                }
            } catch (IOException e) {
                throw new DatasetException(config.repository(), "cannot be read: " + e.getMessage(), e);
            }
            advance.run();
        }
        return out.take();
    }

    private void sample(CommitChanges commit) throws IOException {
        if (config.get(DatasetKeys.COMMITS)) {
            int first = out.samples().size();
            commits.sample(commit);
            drawSome(out.samples().subList(first, out.samples().size()), commit.id());
        }
        if (config.get(DatasetKeys.CHUNKS)) {
            for (CodeChunk chunk : commit.chunks()) {
                chunks.sample(commit, chunk);
            }
        }
    }

    /** Removes random documents until at most the configured number per commit is left, in order. */
    private void drawSome(List<TokenizedSample> documents, String commit) {
        int max = config.get(DatasetKeys.COMMIT_DOCUMENTS);
        SplittableRandom random = out.random(commit + " documents");
        while (max > 0 && documents.size() > max) {
            documents.remove(random.nextInt(documents.size()));
        }
    }

    private CommitChanges read(CommitTask task) {
        RevCommit commit = reader.commit(task.commit());
        String message = HistoryWorker.message(commit, config, new Redactor());
        int end = message.indexOf('\n');
        return new CommitChanges(
                task.split(),
                commit.name(),
                GitHistory.time(commit),
                end < 0 ? message : message.substring(0, end),
                end < 0 ? "" : message.substring(end).strip(),
                task.chunks().stream()
                        .map(line -> CodeChunk.read(Jackson.JSON.readTree(line)))
                        .toList());
    }

    @Override
    public void close() {
        reader.close();
    }
}
