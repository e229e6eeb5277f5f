package dev.starforge.tensor.host;

import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import java.util.Map;
import java.util.WeakHashMap;

/** Tracks tensors that are written in parts, so that a missing or repeated part is an error at once. */
public final class WriteProgress {
    private final Map<Tensor, Long> written = new WeakHashMap<>();

    /** Records the next part of a tensor; a part from byte 0 starts over. */
    public void take(Tensor to, long from, long bytes) {
        long expected = from == 0 ? 0 : written.getOrDefault(to, 0L);
        if (from != expected || bytes > to.bytes() - from) {
            throw new ShapeException("write: bytes " + from + " to " + (from + bytes) + " of tensor " + to
                    + ", expected the next from " + expected + ", up to " + to.bytes());
        }
        if (from + bytes < to.bytes()) {
            written.put(to, from + bytes);
        } else {
            written.remove(to);
        }
    }
}
