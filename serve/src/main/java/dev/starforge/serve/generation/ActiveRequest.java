package dev.starforge.serve.generation;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The sequences of one request under way. What happens waits in a queue for the one thread that writes the answer: a client
 * that reads slowly delays its own answer only, and what it can pile up is bounded by the tokens that it asked for.
 */
public final class ActiveRequest implements InFlightWork, AutoCloseable {
    private final BlockingQueue<GenerationEvent> events = new LinkedBlockingQueue<>();
    private final List<TokenStream> sequences = new CopyOnWriteArrayList<>();
    private final long deadline;
    private final Runnable whenClosed;

    ActiveRequest(Duration timeout, Runnable whenClosed) {
        deadline = System.nanoTime() + timeout.toNanos();
        this.whenClosed = whenClosed;
    }

    void happened(GenerationEvent event) {
        events.add(event);
    }

    void add(TokenStream sequence) {
        sequences.add(sequence);
    }

    /** How many sequences there are. */
    public int size() {
        return sequences.size();
    }

    /** The next thing that happens; when the request has taken too long, that is its end. */
    public GenerationEvent next() throws InterruptedException {
        GenerationEvent event = events.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        if (event != null) {
            return event;
        }
        abort(GenerationError.TIMEOUT);
        return events.take();
    }

    @Override
    public void cancel() {
        abort(GenerationError.CANCELLED);
    }

    private void abort(GenerationError code) {
        sequences.forEach(sequence -> sequence.abort(code));
    }

    /** Whoever started a run ends it, in whatever way its answer ended. */
    @Override
    public void close() {
        cancel();
        whenClosed.run();
    }
}
