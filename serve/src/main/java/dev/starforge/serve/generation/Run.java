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
public final class Run implements Work, AutoCloseable {
    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final List<Sequence> sequences = new CopyOnWriteArrayList<>();
    private final long deadline;
    private final Runnable whenClosed;

    Run(Duration timeout, Runnable whenClosed) {
        deadline = System.nanoTime() + timeout.toNanos();
        this.whenClosed = whenClosed;
    }

    void happened(Event event) {
        events.add(event);
    }

    void add(Sequence sequence) {
        sequences.add(sequence);
    }

    /** How many sequences there are. */
    public int size() {
        return sequences.size();
    }

    /** The next thing that happens; when the request has taken too long, that is its end. */
    public Event next() throws InterruptedException {
        Event event = events.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        if (event != null) {
            return event;
        }
        abort(ErrorCode.TIMEOUT);
        return events.take();
    }

    @Override
    public void cancel() {
        abort(ErrorCode.CANCELLED);
    }

    private void abort(ErrorCode code) {
        sequences.forEach(sequence -> sequence.abort(code));
    }

    /** Whoever started a run ends it, in whatever way its answer ended. */
    @Override
    public void close() {
        cancel();
        whenClosed.run();
    }
}
