package dev.starforge.data.dataset.redact;

import dev.starforge.data.git.BlobCache;
import dev.starforge.data.git.BlobReader;
import java.io.IOException;
import java.util.Optional;
import org.eclipse.jgit.lib.ObjectId;

/** Reads blobs with secrets redacted, for one thread; recent ones are cached, since the same files are read repeatedly. */
public final class RedactedBlobs {
    private final BlobReader blobs;
    private final BlobCache recent = new BlobCache();

    public RedactedBlobs(BlobReader blobs) {
        this.blobs = blobs;
    }

    /** The redacted content; empty if it is too large to be read. */
    public Optional<byte[]> read(ObjectId id) throws IOException {
        if (id.equals(ObjectId.zeroId())) {
            return Optional.of(new byte[0]);
        }
        Optional<byte[]> known = recent.get(id);
        return known.isPresent() ? known : blobs.read(id).map(bytes -> keep(id, new Redactor().redact(bytes)));
    }

    public byte[] keep(ObjectId id, byte[] shown) {
        return recent.put(id, shown);
    }
}
