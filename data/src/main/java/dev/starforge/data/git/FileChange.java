package dev.starforge.data.git;

import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;

/**
 * A file changed by a commit, compared with its first parent.
 *
 * @param similarity of a rename or copy, in percent; 0 for the others
 */
public record FileChange(ChangeType type, Side oldSide, Side newSide, int similarity) {
    /** Git's letters for types of change. */
    public enum ChangeType {
        A,
        M,
        D,
        R,
        C,
        T
    }

    /** A file in one of the two trees. Paths are bytes, since git defines no encoding. */
    public record Side(byte[] path, int mode, ObjectId id) {
        /** No file. */
        static final Side NONE = new Side(new byte[0], 0, ObjectId.zeroId());

        public boolean exists() {
            return mode != 0;
        }

        public boolean isFile() {
            return (mode & FileMode.TYPE_MASK) == FileMode.TYPE_FILE;
        }

        public boolean isLink() {
            return (mode & FileMode.TYPE_MASK) == FileMode.TYPE_SYMLINK;
        }

        public boolean isSubmodule() {
            return (mode & FileMode.TYPE_MASK) == FileMode.TYPE_GITLINK;
        }
    }

    /** The new path, or the old one of a deleted file. */
    public byte[] path() {
        return newSide.exists() ? newSide.path() : oldSide.path();
    }
}
