package dev.starforge.data.git;

import org.eclipse.jgit.lib.FileMode;
import org.eclipse.jgit.lib.ObjectId;

/**
 * One file that a commit changed, against its first parent.
 *
 * @param similarity of a rename or copy, in percent; 0 for the others
 */
public record FileChange(ChangeType type, Side oldSide, Side newSide, int similarity) {
    /** With git's letters. */
    public enum ChangeType {
        A,
        M,
        D,
        R,
        C,
        T
    }

    /** A file in one of the two trees. Paths are bytes: git does not say what they mean. */
    public record Side(byte[] path, int mode, ObjectId id) {
        /** Where there is none. */
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

    /** The path that the change is listed under. */
    public byte[] path() {
        return newSide.exists() ? newSide.path() : oldSide.path();
    }
}
