package dev.starforge.data.git;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectReader;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevCommit;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.treewalk.EmptyTreeIterator;
import org.eclipse.jgit.treewalk.TreeWalk;
import org.eclipse.jgit.treewalk.filter.TreeFilter;

/** Reads commits, trees and blobs of a {@link GitHistory}, for one thread. */
public final class CommitReader implements AutoCloseable {
    private static final int FORGET_AFTER = 1000;

    private final GitHistory history;
    private final ObjectReader objects;
    private final BlobReader blobs;
    private final TreeWalk trees;
    private RevWalk walk;
    private int parsed;

    CommitReader(GitHistory history, Repository repository, int largestBlob) {
        this.history = history;
        objects = repository.newObjectReader();
        blobs = new BlobReader(repository.newObjectReader(), largestBlob, history::skipOrRefuse);
        walk = new RevWalk(objects);
        trees = new TreeWalk(objects);
    }

    /** Returns true if the repository has the object. */
    boolean has(ObjectId id) throws IOException {
        return objects.has(id);
    }

    public BlobReader blobs() {
        return blobs;
    }

    public RevCommit commit(ObjectId id) {
        try {
            // a walk keeps what it has parsed, which would be the whole history
            if (++parsed % FORGET_AFTER == 0) {
                walk = new RevWalk(objects);
            }
            RevCommit commit = walk.parseCommit(id);
            if (commit.getParentCount() > 0) {
                walk.parseHeaders(commit.getParent(0));
            }
            return commit;
        } catch (IOException failure) {
            throw history.unreadable(failure);
        }
    }

    /** The changes of a commit against its first parent, or against an empty tree. */
    public List<FileChange> changes(RevCommit commit, boolean copies) {
        try {
            return RenameDetector.detect(rawChanges(commit), blobs, copies);
        } catch (IOException failure) {
            throw history.unreadable(failure);
        }
    }

    /** The changes without rename detection. */
    List<FileChange> rawChanges(RevCommit commit) {
        try {
            trees.reset();
            trees.setRecursive(true);
            trees.setFilter(TreeFilter.ANY_DIFF);
            if (commit.getParentCount() > 0) {
                trees.addTree(commit.getParent(0).getTree());
            } else {
                trees.addTree(new EmptyTreeIterator());
            }
            trees.addTree(commit.getTree());
            List<FileChange> changes = new ArrayList<>();
            while (trees.next()) {
                changes.add(change());
            }
            return changes;
        } catch (IOException failure) {
            throw history.unreadable(failure);
        }
    }

    /** Sizes of the changed files of a commit, before and after it, in bytes; without files that are too large to be read. */
    public long changedBytes(RevCommit commit, Predicate<String> counted) throws IOException {
        long sum = 0;
        for (FileChange change : rawChanges(commit)) {
            if (counted.test(GitPath.text(change.path()))) {
                sum += blobs.readableSize(change.oldSide()) + blobs.readableSize(change.newSide());
            }
        }
        return sum;
    }

    private FileChange change() {
        FileChange.Side from = side(0);
        FileChange.Side to = side(1);
        FileChange.ChangeType type = !from.exists()
                ? FileChange.ChangeType.A
                : !to.exists()
                        ? FileChange.ChangeType.D
                        : from.mode() >> 12 != to.mode() >> 12 ? FileChange.ChangeType.T : FileChange.ChangeType.M;
        return new FileChange(type, from, to, 0);
    }

    private FileChange.Side side(int tree) {
        int mode = trees.getRawMode(tree);
        return mode == 0
                ? FileChange.Side.NONE
                : new FileChange.Side(trees.getRawPath(), mode, trees.getObjectId(tree));
    }

    /** The blob at a path of a commit. */
    public Optional<ObjectId> blob(RevCommit commit, byte[] path) {
        try {
            RevCommit parsedCommit = commit(commit);
            try (TreeWalk found =
                    TreeWalk.forPath(objects, new String(path, StandardCharsets.UTF_8), parsedCommit.getTree())) {
                return found == null || !found.getFileMode(0).equals(FileMode.TYPE_FILE)
                        ? Optional.empty()
                        : Optional.of(found.getObjectId(0));
            }
        } catch (IOException failure) {
            throw history.unreadable(failure);
        }
    }

    /** Returns true if a merge took the file unchanged from a parent other than the first. */
    public boolean inherited(RevCommit commit, FileChange change) {
        for (int parent = 1; parent < commit.getParentCount(); parent++) {
            if (blob(commit.getParent(parent), change.path())
                    .filter(change.newSide().id()::equals)
                    .isPresent()) {
                return true;
            }
        }
        return false;
    }

    /** All files of a commit's tree. */
    public List<FileChange.Side> tree(RevCommit commit) {
        try {
            trees.reset();
            trees.setRecursive(true);
            trees.setFilter(TreeFilter.ALL);
            trees.addTree(commit.getTree());
            List<FileChange.Side> files = new ArrayList<>();
            while (trees.next()) {
                files.add(side(0));
            }
            return files;
        } catch (IOException failure) {
            throw history.unreadable(failure);
        }
    }

    @Override
    public void close() {
        trees.close();
        walk.close();
        blobs.close();
        objects.close();
    }
}
