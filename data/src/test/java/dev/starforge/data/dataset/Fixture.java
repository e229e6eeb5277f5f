package dev.starforge.data.dataset;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.starforge.data.git.GitHistory;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.eclipse.jgit.dircache.DirCache;
import org.eclipse.jgit.dircache.DirCacheBuilder;
import org.eclipse.jgit.dircache.DirCacheEntry;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.TreeFormatter;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;

/** A bare repository written object by object: no work tree, any mode, any bytes, any time. */
final class Fixture implements AutoCloseable {
    private record Entry(FileMode mode, ObjectId id) {}

    private final Path folder;
    private final Repository repository;
    private final TreeMap<String, Entry> tree = new TreeMap<>();
    private ObjectId head = ObjectId.zeroId();
    private long time = 1_600_000_000L;

    Fixture(Path folder) throws IOException {
        this.folder = folder;
        repository =
                new FileRepositoryBuilder().setGitDir(folder.toFile()).setBare().build();
        repository.create(true);
    }

    Path folder() {
        return folder;
    }

    ObjectId head() {
        return head;
    }

    Fixture put(String path, byte[] content) throws IOException {
        return put(path, FileMode.REGULAR_FILE, content);
    }

    Fixture put(String path, String content) throws IOException {
        return put(path, content.getBytes(UTF_8));
    }

    Fixture put(String path, FileMode mode, byte[] content) throws IOException {
        try (ObjectInserter inserter = repository.newObjectInserter()) {
            tree.put(path, new Entry(mode, inserter.insert(Constants.OBJ_BLOB, content)));
            inserter.flush();
        }
        return this;
    }

    Fixture submodule(String path, ObjectId commit) {
        tree.put(path, new Entry(FileMode.GITLINK, commit));
        return this;
    }

    Fixture remove(String path) {
        tree.remove(path);
        return this;
    }

    Fixture move(String from, String to) {
        tree.put(to, tree.remove(from));
        return this;
    }

    /** The files as they are now, to return to. */
    Map<String, Object> state() {
        return new TreeMap<>(tree);
    }

    Fixture restore(Map<String, Object> state) {
        tree.clear();
        state.forEach((path, entry) -> tree.put(path, (Entry) entry));
        return this;
    }

    /** The next commit is made at that time, in seconds. */
    Fixture at(long seconds) {
        time = seconds - 3600;
        return this;
    }

    ObjectId commit(String message) throws IOException {
        return commit(message, head.equals(ObjectId.zeroId()) ? List.of() : List.of(head));
    }

    ObjectId commit(String message, List<ObjectId> parents) throws IOException {
        time += 3600;
        try (ObjectInserter inserter = repository.newObjectInserter()) {
            DirCache cache = DirCache.newInCore();
            DirCacheBuilder builder = cache.builder();
            tree.forEach((path, entry) -> {
                DirCacheEntry each = new DirCacheEntry(path);
                each.setFileMode(entry.mode());
                each.setObjectId(entry.id());
                builder.add(each);
            });
            builder.finish();
            CommitBuilder commit = new CommitBuilder();
            commit.setTreeId(cache.writeTree(inserter));
            commit.setParentIds(parents);
            PersonIdent who = new PersonIdent(
                    "Ada Example", "ada@secret-domain.dev", Instant.ofEpochSecond(time), ZoneOffset.UTC);
            commit.setAuthor(who);
            commit.setCommitter(who);
            commit.setMessage(message);
            head = inserter.insert(commit);
            inserter.flush();
        }
        name(head);
        return head;
    }

    /** A commit with a malformed author, of a tree with only a folder named {@code ..}. */
    ObjectId commitOfNobodyAbove(String message) throws IOException {
        try (ObjectInserter inserter = repository.newObjectInserter()) {
            ObjectId blob = inserter.insert(Constants.OBJ_BLOB, "text that stays where it is\n".getBytes(UTF_8));
            TreeFormatter inner = new TreeFormatter();
            inner.append("escape.txt", FileMode.REGULAR_FILE, blob);
            TreeFormatter outer = new TreeFormatter();
            outer.append("..", FileMode.TREE, inserter.insert(inner));
            String text = "tree " + inserter.insert(outer).name() + "\nparent " + head.name()
                    + "\nauthor nobody\ncommitter nobody\n\n" + message + "\n";
            head = inserter.insert(Constants.OBJ_COMMIT, text.getBytes(UTF_8));
            inserter.flush();
        }
        name(head);
        return head;
    }

    private void name(ObjectId commit) throws IOException {
        RefUpdate update = repository.updateRef("refs/heads/main");
        update.setNewObjectId(commit);
        update.disableRefLog();
        update.forceUpdate();
        RefUpdate link = repository.updateRef(Constants.HEAD);
        link.disableRefLog();
        link.link("refs/heads/main");
    }

    static GitHistory open(Path folder) {
        return GitHistory.open(folder, 1 << 23, false);
    }

    @Override
    public void close() {
        repository.close();
    }
}
