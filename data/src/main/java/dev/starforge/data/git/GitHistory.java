package dev.starforge.data.git;

import dev.starforge.data.DatasetException;
import java.io.File;
import java.io.IOException;
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
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.revwalk.RevCommit;
import org.eclipse.jgit.revwalk.RevSort;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;

/**
 * Reads the objects of an untrusted repository. Nothing of it is executed: without a work tree there are no filters, hooks,
 * file system monitors or links to follow. The configuration of machine and user is not read ({@link ReadOnlyConfig}); from
 * the repository's own only the object format is used.
 */
public final class GitHistory implements AutoCloseable {
    /** Prefix of tag names in {@link #names}. */
    public static final String TAG = "tag:";

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
     * Opens a repository by its folder or its work tree.
     *
     * @param largestBlob in bytes; larger contents are never read
     * @param skipMissing whether blobs that a partial clone lacks are skipped; otherwise they are an error
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

    /** A hint in case the folder is part of a work tree. */
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

    /** Returns true for a shallow clone, which lacks older commits. */
    public boolean isShallow() {
        try {
            return !repository.getObjectDatabase().getShallowCommits().isEmpty();
        } catch (IOException failure) {
            throw unreadable(failure);
        }
    }

    /** The commit of a revision. */
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

    /** Commits reachable from {@code head} and not from the excluded ones: parents before children, older before newer. */
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
     * The first blob written by these commits that the repository lacks. Only partial clones are searched: in other
     * repositories a missing blob is damage and found when it is read.
     *
     * @param advance called after every commit
     */
    public Optional<ObjectId> firstMissing(List<ObjectId> commits, Runnable advance) {
        if (!isPartialClone()) {
            return Optional.empty();
        }
        try (CommitReader reader = reader()) {
            for (ObjectId commit : commits) {
                for (FileChange change : reader.rawChanges(reader.commit(commit))) {
                    FileChange.Side side = change.newSide();
                    if (side.exists() && !side.isSubmodule() && !reader.has(side.id())) {
                        return Optional.of(side.id());
                    }
                }
                advance.run();
            }
            return Optional.empty();
        } catch (IOException failure) {
            throw unreadable(failure);
        }
    }

    /** Returns true if git has marked a pack as fetched with a filter. */
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

    /** An exception for a missing blob, with advice. */
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

    void skipOrRefuse(ObjectId id) {
        if (!skipMissing) {
            throw missing(id);
        }
    }

    /** The commit time in seconds since the epoch; JGit's own field ends in 2038. */
    public static long time(RevCommit commit) {
        PersonIdent committer = commit.getCommitterIdent();
        return committer == null
                ? commit.getCommitTime()
                : committer.getWhenAsInstant().getEpochSecond();
    }

    /** Short names of branches and tags by commit. */
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

    /** A reader for one thread. */
    public CommitReader reader() {
        return new CommitReader(this, repository, largestBlob);
    }

    DatasetException unreadable(Exception failure) {
        return new DatasetException(path, "cannot be read: " + failure.getMessage(), failure);
    }

    @Override
    public void close() {
        repository.close();
    }
}
