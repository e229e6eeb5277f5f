package dev.starforge.data.git;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;

/** A least-recently-used cache of blob contents of some megabytes, for one thread: the new side of a change is the old side of the next. */
public final class BlobCache {
    private static final long KEPT = 24 << 20;

    private long held;

    private final Map<ObjectId, byte[]> contents = new LinkedHashMap<>(256, 0.75f, true) {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<ObjectId, byte[]> eldest) {
            if (held <= KEPT) {
                return false;
            }
            held -= eldest.getValue().length;
            return true;
        }
    };

    public Optional<byte[]> get(ObjectId id) {
        return Optional.ofNullable(contents.get(id));
    }

    public byte[] put(ObjectId id, byte[] content) {
        byte[] before = contents.put(id, content);
        held += content.length - (before == null ? 0 : before.length);
        return content;
    }
}
