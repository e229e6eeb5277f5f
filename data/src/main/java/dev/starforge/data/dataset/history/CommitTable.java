package dev.starforge.data.dataset.history;

import dev.starforge.data.Split;
import dev.starforge.data.dataset.split.SplitBoundaries;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;

/** The commits of a build in history order, parents first, with their commit times. */
public final class CommitTable {
    private final List<ObjectId> commits;
    private final long[] times;
    private int timed;

    public CommitTable(List<ObjectId> commits) {
        this.commits = commits;
        times = new long[commits.size()];
    }

    public int count() {
        return commits.size();
    }

    public List<ObjectId> ids() {
        return commits;
    }

    /** Sets the commit time of the next commit, in seconds since the epoch. */
    public void addTime(long seconds) {
        times[timed++] = seconds;
    }

    public long[] times() {
        return times;
    }

    public Split split(int commit, SplitBoundaries boundaries) {
        return boundaries.of(times[commit]);
    }

    public boolean isTraining(int commit, SplitBoundaries boundaries) {
        return split(commit, boundaries) == Split.TRAIN;
    }

    /** The last commit of the training split, or -1. */
    public int lastTraining(SplitBoundaries boundaries) {
        int last = -1;
        for (int commit = 0; commit < times.length; commit++) {
            last = isTraining(commit, boundaries) ? commit : last;
        }
        return last;
    }
}
