package dev.starforge.data.git;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.api.errors.GitAPIException;
import org.eclipse.jgit.lib.CommitBuilder;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectInserter;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.lib.TreeFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Large objects and small ones, packed and not. */
final class BlobReaderTest {
    private static final int LARGE = 300_000;
    private static final int LARGEST = 1_000_000;
    private static final int MANY = 2_500;

    private final TreeFormatter tree = new TreeFormatter();

    @Test
    void fileKindsAreThoseOfGit(@TempDir Path folder) throws IOException, GitAPIException {
        ReadOnlyConfig.install();
        try (Git git = Git.init().setBare(true).setDirectory(folder.toFile()).call();
                ObjectInserter inserter = git.getRepository().newObjectInserter()) {
            FileChange.Side small = put(inserter, "a", text(100));
            FileChange.Side large = put(inserter, "b", text(LARGE));
            FileChange.Side smallBinary = put(inserter, "c", withZero(100, 50));
            FileChange.Side largeBinary = put(inserter, "d", withZero(LARGE, 7_999));
            FileChange.Side zeroTooLate = put(inserter, "e", withZero(LARGE, 8_000));
            FileChange.Side tooLarge = put(inserter, "f", text(LARGEST + 1));
            FileChange.Side submodule = new FileChange.Side(
                    new byte[] {'g'}, FileMode.GITLINK.getBits(), ObjectId.fromString("1".repeat(40)));
            commit(git.getRepository(), inserter);
            for (boolean packed : new boolean[] {false, true}) {
                if (packed) {
                    git.gc().call();
                }
                try (GitHistory history = GitHistory.open(folder, LARGEST, false);
                        CommitReader reader = history.reader()) {
                    BlobReader blobs = reader.blobs();
                    for (int again = 0; again < 2; again++) {
                        assertThat(blobs.kind(small)).isEqualTo(BlobReader.ContentKind.TEXT);
                        assertThat(blobs.kind(large)).isEqualTo(BlobReader.ContentKind.TEXT);
                        assertThat(blobs.kind(smallBinary)).isEqualTo(BlobReader.ContentKind.BINARY);
                        assertThat(blobs.kind(largeBinary)).isEqualTo(BlobReader.ContentKind.BINARY);
                        assertThat(blobs.kind(zeroTooLate)).isEqualTo(BlobReader.ContentKind.TEXT);
                        assertThat(blobs.kind(tooLarge)).isEqualTo(BlobReader.ContentKind.TOO_LARGE);
                        assertThat(blobs.kind(FileChange.Side.NONE)).isEqualTo(BlobReader.ContentKind.TEXT);
                        assertThat(blobs.kind(submodule)).isEqualTo(BlobReader.ContentKind.TEXT);
                        assertThat(blobs.read(large)).contains(text(LARGE));
                        assertThat(blobs.read(largeBinary)).contains(withZero(LARGE, 7_999));
                        assertThat(blobs.read(tooLarge)).isEmpty();
                    }
                }
            }
        }
    }

    /** A tree is an object too, and none that is read in part. */
    @Test
    void aFolderMayHaveManyFiles(@TempDir Path folder) throws IOException, GitAPIException {
        ReadOnlyConfig.install();
        try (Git git = Git.init().setBare(true).setDirectory(folder.toFile()).call();
                ObjectInserter inserter = git.getRepository().newObjectInserter()) {
            for (int i = 0; i < MANY; i++) {
                put(inserter, "file" + (MANY + i), text(1));
            }
            commit(git.getRepository(), inserter);
            for (boolean packed : new boolean[] {false, true}) {
                if (packed) {
                    git.gc().call();
                }
                try (GitHistory history = GitHistory.open(folder, LARGEST, false);
                        CommitReader reader = history.reader()) {
                    assertThat(reader.changes(reader.commit(history.resolve("HEAD")), false))
                            .hasSize(MANY);
                }
            }
        }
    }

    private FileChange.Side put(ObjectInserter inserter, String name, byte[] content) throws IOException {
        ObjectId id = inserter.insert(Constants.OBJ_BLOB, content);
        tree.append(name, FileMode.REGULAR_FILE, id);
        return new FileChange.Side(name.getBytes(StandardCharsets.US_ASCII), FileMode.REGULAR_FILE.getBits(), id);
    }

    private void commit(Repository repository, ObjectInserter inserter) throws IOException {
        CommitBuilder commit = new CommitBuilder();
        commit.setTreeId(inserter.insert(tree));
        PersonIdent somebody = new PersonIdent("Somebody", "somebody@example.org");
        commit.setAuthor(somebody);
        commit.setCommitter(somebody);
        RefUpdate head = repository.updateRef(Constants.HEAD);
        head.setNewObjectId(inserter.insert(commit));
        inserter.flush();
        head.forceUpdate();
    }

    private static byte[] text(int size) {
        byte[] text = new byte[size];
        Arrays.fill(text, (byte) 'x');
        return text;
    }

    private static byte[] withZero(int size, int place) {
        byte[] bytes = text(size);
        bytes[place] = 0;
        return bytes;
    }
}
