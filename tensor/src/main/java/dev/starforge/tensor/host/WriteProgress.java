package dev.starforge.tensor.host;

import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import java.util.Map;
import java.util.WeakHashMap;

/** How far tensors that are written in pieces have come, so that one left out or twice there is an error at once. */
public final class WriteProgress {
    private final Map<Tensor, Long> written = new WeakHashMap<>();

    /** Takes the next piece of a tensor into account; one from byte 0 begins anew. */
    public void take(Tensor to, long from, long bytes) {
        long expected = from == 0 ? 0 : written.getOrDefault(to, 0L);
        if (from != expected || bytes > to.bytes() - from) {
            throw new ShapeException("write: bytes " + from + " to " + (from + bytes) + " of tensor " + to
                    + ", expected the next from " + expected + " on, up to " + to.bytes());
        }
        if (from + bytes < to.bytes()) {
            written.put(to, from + bytes);
        } else {
            written.remove(to);
        }
    }
}
