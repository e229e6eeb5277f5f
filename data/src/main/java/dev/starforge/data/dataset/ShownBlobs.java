package dev.starforge.data.dataset;

import dev.starforge.data.git.Blobs;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;

/** Contents without secrets, for one thread; the last ones are kept, since the same files are asked for again and again. */
final class ShownBlobs {
    private static final long KEPT = 24 << 20;

    private final Blobs blobs;
    private long held;

    private final Map<ObjectId, byte[]> recent = new LinkedHashMap<>(256, 0.75f, true) {
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

    ShownBlobs(Blobs blobs) {
        this.blobs = blobs;
    }

    /** The content; empty if it is too large to be read. */
    Optional<byte[]> read(ObjectId id) throws IOException {
        if (id.equals(ObjectId.zeroId())) {
            return Optional.of(new byte[0]);
        }
        byte[] known = recent.get(id);
        if (known != null) {
            return Optional.of(known);
        }
        Optional<byte[]> content = blobs.read(id);
        return content.map(bytes -> keep(id, new Secrets().redact(bytes)));
    }

    byte[] keep(ObjectId id, byte[] shown) {
        held += shown.length;
        recent.put(id, shown);
        return shown;
    }
}
