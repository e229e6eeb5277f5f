package dev.starforge.data.git;

import dev.starforge.data.DatasetException;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import org.eclipse.jgit.errors.LargeObjectException;
import org.eclipse.jgit.errors.MissingObjectException;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectReader;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevCommit;
import org.eclipse.jgit.revwalk.RevSort;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;
import org.eclipse.jgit.treewalk.EmptyTreeIterator;
import org.eclipse.jgit.treewalk.TreeWalk;
import org.eclipse.jgit.treewalk.filter.TreeFilter;

/**
 * The objects of a repository that nobody has vouched for. Nothing of it is run: there is no work tree here, so no
 * filters, hooks, file system monitors or links to follow; the configuration of the machine and its user is not read
 * ({@link ReadOnlyConfig}), and the repository's own is only asked for the format of its objects.
 */
public final class GitHistory implements AutoCloseable {
    /** What the names of tags begin with in {@link #names}. */
    public static final String TAG = "tag:";

    private static final int FORGET_AFTER = 1000;

    private final Path path;
    private final Repository repository;
    private final int largestBlob;
    private final boolean skipMissing;

    private GitHistory(Path path, Repository repository, int largestBlob, boolean skipMissing) {
        this.path = path;
        this.repository = repository;
        this.largestBlob = largestBlob;
        this.skipMissing = skipMissing;
    }

    /**
     * Opens a repository by its folder, or that of its work tree.
     *
     * @param largestBlob in bytes; contents beyond it are never read
     * @param skipMissing whether a blob that a partial clone lacks is passed over, else it is an error
     */
    public static GitHistory open(Path path, int largestBlob, boolean skipMissing) {
        ReadOnlyConfig.install();
        if (!Files.isDirectory(path)) {
            throw new DatasetException(path, "is not a git repository: there is no such folder");
        }
        if (!Files.isReadable(path) || !Files.isExecutable(path)) {
            throw new DatasetException(path, "cannot be read: no permission");
        }
        FileRepositoryBuilder builder = new FileRepositoryBuilder().setMustExist(true);
        File own = path.toAbsolutePath().normalize().toFile(); // a ceiling with .. in it holds nothing
        builder.addCeilingDirectory(own.getParentFile());
        builder.findGitDir(own);
        File folder = builder.getGitDir();
        if (folder == null) {
            throw new DatasetException(
                    path, "is not a git repository: it has no .git, and no objects and refs either" + enclosing(own));
        }
        for (String part : List.of("HEAD", "config")) {
            Path file = folder.toPath().resolve(part);
            if (Files.exists(file) && !Files.isReadable(file)) {
                throw new DatasetException(file, "cannot be read: no permission");
            }
        }
        if (!Files.isReadable(folder.toPath())) {
            throw new DatasetException(folder.toPath(), "cannot be read: no permission");
        }
        try {
            Repository repository = builder.setBare().setGitDir(folder).build();
            Path objects = repository.getCommonDirectory().toPath().resolve("objects");
            if (!Files.isReadable(objects) || !Files.isExecutable(objects)) {
                repository.close();
                throw new DatasetException(objects, "cannot be read: no permission");
            }
            return new GitHistory(path, repository, largestBlob, skipMissing);
        } catch (IOException | IllegalArgumentException failure) {
            throw new DatasetException(path, "cannot be opened as a git repository: " + failure.getMessage(), failure);
        }
    }

    /** A hint for the part of a work tree, which is not a repository by itself. */
    private static String enclosing(File part) {
        for (File folder = part.getParentFile(); folder != null; folder = folder.getParentFile()) {
            if (new File(folder, Constants.DOT_GIT).exists()) {
                String inside =
                        folder.toPath().relativize(part.toPath()).toString().replace(File.separatorChar, '/');
                return "; it is a part of " + folder + ": give that, with --set 'dataset.filters.include=" + inside
                        + "/**'";
            }
        }
        return "";
    }

    /** Whether older commits were left out when it was cloned. */
    public boolean isShallow() {
        try {
            return !repository.getObjectDatabase().getShallowCommits().isEmpty();
        } catch (IOException failure) {
            throw unreadable(failure);
        }
    }

    /** The commit that a revision names. */
    public ObjectId resolve(String revision) {
        try {
            if (repository.exactRef(Constants.HEAD) == null
                    && repository.getRefDatabase().getRefs().isEmpty()) {
                throw new DatasetException(path, "is an empty repository: it has no commits");
            }
            ObjectId id = repository.resolve(revision + "^{commit}");
            if (id == null && revision.equals(Constants.HEAD)) {
                throw new DatasetException(path, "is an empty repository: HEAD names no commit; see --rev");
            }
            if (id == null) {
                throw new DatasetException(path, "has no commit called " + revision);
            }
            return id.copy();
        } catch (IllegalArgumentException failure) {
            throw new DatasetException(path, "cannot understand the revision " + revision, failure);
        } catch (MissingObjectException failure) {
            throw new DatasetException(path, "has no commit called " + revision, failure);
        } catch (IOException failure) {
            throw unreadable(failure);
        }
    }

    /** Commits that lead to a head and not to the excluded ones: parents before children, older before newer. */
    public List<ObjectId> commits(ObjectId head, Collection<ObjectId> excluded) {
        try (RevWalk walk = new RevWalk(repository)) {
            walk.setRetainBody(false);
            walk.sort(RevSort.TOPO);
            walk.sort(RevSort.COMMIT_TIME_DESC, true);
            walk.sort(RevSort.REVERSE, true);
            walk.markStart(walk.parseCommit(head));
            for (ObjectId id : excluded) {
                walk.markUninteresting(walk.parseCommit(id));
            }
            List<ObjectId> commits = new ArrayList<>();
            for (RevCommit commit : walk) {
                commits.add(commit.copy());
            }
            return commits;
        } catch (MissingObjectException failure) {
            throw new DatasetException(
                    path, "lacks the commit " + failure.getObjectId().name(), failure);
        } catch (IOException | LargeObjectException failure) {
            throw unreadable(failure);
        }
    }

    /**
     * The first blob that these commits wrote and that is not here. Only partial clones are searched: elsewhere a missing
     * blob is damage, and met when it is read.
     *
     * @param each is run after every commit
     */
    public Optional<ObjectId> firstMissing(List<ObjectId> commits, Runnable each) {
        if (!isPartialClone()) {
            return Optional.empty();
        }
        try (CommitReader reader = reader()) {
            for (ObjectId commit : commits) {
                for (FileChange change : reader.rawChanges(reader.commit(commit))) {
                    FileChange.Side side = change.newSide();
                    if (side.exists() && !side.isSubmodule() && !reader.objects.has(side.id())) {
                        return Optional.of(side.id());
                    }
                }
                each.run();
            }
            return Optional.empty();
        } catch (IOException failure) {
            throw unreadable(failure);
        }
    }

    /** git marks the packs that it fetched with a filter. */
    private boolean isPartialClone() {
        Path packs = repository.getCommonDirectory().toPath().resolve("objects").resolve("pack");
        try (DirectoryStream<Path> marks = Files.newDirectoryStream(packs, "*.promisor")) {
            return marks.iterator().hasNext();
        } catch (NoSuchFileException none) {
            return false;
        } catch (IOException failure) {
            throw unreadable(failure);
        }
    }

    /** What to say, and to do, about a blob that is not here. */
    public DatasetException missing(ObjectId id) {
        Config config = repository.getConfig();
        String remote = config.getSubsections("remote").stream()
                .filter(name -> config.getBoolean("remote", name, "promisor", false))
                .findFirst()
                .orElse("origin");
        return new DatasetException(
                path,
                isPartialClone()
                        ? "is a partial clone: blob " + id.name()
                                + " is not in it, and maybe others. Fetch them with: git -C "
                                + path + " fetch --refetch --no-filter " + remote
                                + "; or leave those files out with dataset --skip-missing"
                        : "lacks blob " + id.name()
                                + ": it is damaged (git fsck says more). Clone it again, or leave such "
                                + "files out with dataset --skip-missing");
    }

    private void skipOrRefuse(ObjectId id) {
        if (!skipMissing) {
            throw missing(id);
        }
    }

    /** When a commit was made, in seconds; JGit's own count ends in 2038. */
    public static long time(RevCommit commit) {
        PersonIdent committer = commit.getCommitterIdent();
        return committer == null
                ? commit.getCommitTime()
                : committer.getWhenAsInstant().getEpochSecond();
    }

    /** Short names of branches and tags, by the commit they name. */
    public Map<ObjectId, List<String>> names() {
        try {
            Map<ObjectId, TreeSet<String>> names = new HashMap<>();
            for (Ref ref : repository.getRefDatabase().getRefs()) {
                if (ref.getName().startsWith(Constants.R_REFS) && !ref.isSymbolic()) {
                    Ref peeled = repository.getRefDatabase().peel(ref);
                    ObjectId id = peeled.getPeeledObjectId() != null ? peeled.getPeeledObjectId() : ref.getObjectId();
                    if (id != null) {
                        names.computeIfAbsent(id.copy(), key -> new TreeSet<>())
                                .add((ref.getName().startsWith(Constants.R_TAGS) ? TAG : "")
                                        + Repository.shortenRefName(ref.getName()));
                    }
                }
            }
            Map<ObjectId, List<String>> sorted = new HashMap<>();
            names.forEach((id, all) -> sorted.put(id, List.copyOf(all)));
            return sorted;
        } catch (IOException failure) {
            throw unreadable(failure);
        }
    }

    /** What one thread reads with. */
    public CommitReader reader() {
        return new CommitReader(repository.newObjectReader());
    }

    private DatasetException unreadable(Exception failure) {
        return new DatasetException(path, "cannot be read: " + failure.getMessage(), failure);
    }

    @Override
    public void close() {
        repository.close();
    }

    /** Reads commits, trees and blobs; for one thread. */
    public final class CommitReader implements AutoCloseable {
        private final ObjectReader objects;
        private final BlobReader blobs;
        private final TreeWalk trees;
        private RevWalk walk;
        private int parsed;

        private CommitReader(ObjectReader objects) {
            this.objects = objects;
            blobs = new BlobReader(repository.newObjectReader(), largestBlob, GitHistory.this::skipOrRefuse);
            walk = new RevWalk(objects);
            trees = new TreeWalk(objects);
        }

        public BlobReader blobs() {
            return blobs;
        }

        public RevCommit commit(ObjectId id) {
            try {
                // a walk remembers what it has parsed: it would come to hold the whole history
                if (++parsed % FORGET_AFTER == 0) {
                    walk = new RevWalk(objects);
                }
                RevCommit commit = walk.parseCommit(id);
                if (commit.getParentCount() > 0) {
                    walk.parseHeaders(commit.getParent(0));
                }
                return commit;
            } catch (IOException failure) {
                throw unreadable(failure);
            }
        }

        /** What a commit changed against its first parent; without one, against nothing. */
        public List<FileChange> changes(RevCommit commit, boolean copies) {
            try {
                return RenameDetector.detect(rawChanges(commit), blobs, copies);
            } catch (IOException failure) {
                throw unreadable(failure);
            }
        }

        /** Without renames. */
        private List<FileChange> rawChanges(RevCommit commit) {
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
                throw unreadable(failure);
            }
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

        /** The blob that a path names in a commit, if there is one. */
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
                throw unreadable(failure);
            }
        }

        /** Whether a merge took a file as another parent than the first has it, so that it says nothing new. */
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

        /** Every file of a commit's tree. */
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
                throw unreadable(failure);
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
}
