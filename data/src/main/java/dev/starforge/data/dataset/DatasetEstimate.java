package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.git.CommitReader;
import dev.starforge.data.git.GitHistory;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.revwalk.RevCommit;

/**
 * What a dataset of some commits takes: nearly all time and space goes into the versions of the files that they change, so
 * both follow from the sizes of these. A sample of the commits is enough.
 *
 * @param changedBytes estimated sizes of all changed files of known languages, before and after their commits
 */
public record DatasetEstimate(int commits, long changedBytes) {
    private static final int SAMPLED = 400;
    private static final double START_SECONDS = 5;

    /** Of several repositories with up to ten thousand commits, on two cores: most were between 9 and 20 MB per second. */
    private static final double BYTES_PER_SECOND = 12e6;

    /** Disk space per byte while a dataset is built; the finished one takes three quarters of it. */
    private static final double SPACE = 0.22;

    /** Estimates of a sample are not exact: less than this share of the estimated space is certainly too little. */
    private static final double LEAST_SHARE = 0.5;

    /** Estimates for commits from the first, which may import a whole tree, and an evenly spaced sample of the others. */
    public static DatasetEstimate of(GitHistory history, List<ObjectId> commits) throws IOException {
        if (commits.isEmpty()) {
            return new DatasetEstimate(0, 0);
        }
        List<ObjectId> later = commits.subList(1, commits.size());
        int sampled = Math.min(SAMPLED, later.size());
        long bytes = 0;
        try (CommitReader reader = history.reader()) {
            for (int i = 0; i < sampled; i++) {
                bytes += changedBytes(reader, later.get((int) ((long) i * later.size() / sampled)));
            }
            bytes = sampled == 0 ? 0 : bytes * later.size() / sampled;
            return new DatasetEstimate(commits.size(), bytes + changedBytes(reader, commits.getFirst()));
        }
    }

    /** What a merge takes from its parents counts where it was written. */
    private static long changedBytes(CommitReader reader, ObjectId id) throws IOException {
        RevCommit commit = reader.commit(id);
        return commit.getParentCount() > 1
                ? 0
                : reader.changedBytes(commit, path -> !Language.of(path).equals(Language.UNKNOWN));
    }

    /** Estimated time of a build. */
    public double seconds() {
        return START_SECONDS + changedBytes / BYTES_PER_SECOND;
    }

    /** Estimated disk space of a build. */
    public long bytes() {
        return (long) (SPACE * changedBytes);
    }

    /** Throws if there is certainly not enough disk space. */
    void requireSpace(Path out, long free) {
        if (free < LEAST_SHARE * bytes()) {
            throw new DatasetException(
                    out,
                    "not enough disk space: a dataset of " + commits + " commits needs about " + (bytes() >> 20)
                            + " MiB, and " + (free >> 20) + " MiB are free");
        }
    }
}
