package dev.starforge.data.dataset.sample;

import dev.starforge.data.dataset.chunk.ChunkTable;
import dev.starforge.data.dataset.history.CommitTable;
import dev.starforge.data.dataset.split.SplitBoundaries;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/** The tasks of the sample stage in batches: first the groups of files, then the commits with their kept chunks. */
public final class SampleTasks implements Iterator<List<SampleWorker.SampleTask>> {
    /** Neighbouring tasks read the same files, so one thread gets several at once. */
    private static final int BATCH = 16;

    private final Iterator<SampleWorker.FilesTask> files;
    private final CommitTable commits;
    private final ChunkTable.KeptChunks chunks;
    private final SplitBoundaries boundaries;
    private int commit;

    public SampleTasks(
            List<SampleWorker.FilesTask> files,
            CommitTable commits,
            ChunkTable.KeptChunks chunks,
            SplitBoundaries boundaries) {
        this.files = files.iterator();
        this.commits = commits;
        this.chunks = chunks;
        this.boundaries = boundaries;
    }

    @Override
    public boolean hasNext() {
        return files.hasNext() || commit < commits.count();
    }

    @Override
    public List<SampleWorker.SampleTask> next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        List<SampleWorker.SampleTask> batch = new ArrayList<>(BATCH);
        while (hasNext() && batch.size() < BATCH) {
            batch.add(files.hasNext() ? files.next() : nextCommit());
        }
        return batch;
    }

    private SampleWorker.SampleTask nextCommit() {
        try {
            return new SampleWorker.CommitTask(
                    commits.split(commit, boundaries), commits.ids().get(commit++), chunks.next());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
