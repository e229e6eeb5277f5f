package dev.starforge.data.dataset;

import dev.starforge.data.git.Blobs;
import dev.starforge.data.git.RecentBlobs;
import java.io.IOException;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;

/** Contents without secrets, for one thread; the last ones are kept, since the same files are asked for again and again. */
final class ShownBlobs {
    private final Blobs blobs;
    private final RecentBlobs recent = new RecentBlobs();

    ShownBlobs(Blobs blobs) {
        this.blobs = blobs;
    }

    /** The content; empty if it is too large to be read. */
    Optional<byte[]> read(ObjectId id) throws IOException {
        if (id.equals(ObjectId.zeroId())) {
            return Optional.of(new byte[0]);
        }
        Optional<byte[]> known = recent.get(id);
        return known.isPresent() ? known : blobs.read(id).map(bytes -> keep(id, new Secrets().redact(bytes)));
    }

    byte[] keep(ObjectId id, byte[] shown) {
        return recent.put(id, shown);
    }
}
