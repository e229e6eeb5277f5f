package dev.starforge.serve.generation;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The running sequences of one request. Their events wait in a queue for the thread that writes the response: a client that reads
 * slowly delays only its own response, and max_tokens bounds the queue.
 */
public final class ActiveRequest implements InFlightWork, AutoCloseable {
    private final BlockingQueue<GenerationEvent> events = new LinkedBlockingQueue<>();
    private final List<TokenStream> sequences = new CopyOnWriteArrayList<>();
    private final long deadline;
    private final Runnable onClose;

    ActiveRequest(Duration timeout, Runnable onClose) {
        deadline = System.nanoTime() + timeout.toNanos();
        this.onClose = onClose;
    }

    void publish(GenerationEvent event) {
        events.add(event);
    }

    void add(TokenStream sequence) {
        sequences.add(sequence);
    }

    /** Number of sequences. */
    public int size() {
        return sequences.size();
    }

    /** Passes all events to the writer; returns when every sequence has finished or one has failed. */
    public void writeTo(GenerationWriter writer) throws IOException, InterruptedException {
        for (int open = size(); open > 0; ) {
            switch (next()) {
                case GenerationEvent.Delta delta -> writer.delta(delta);
                case GenerationEvent.Finished finished -> {
                    writer.finished(finished);
                    open--;
                }
                case GenerationEvent.Failed failed -> {
                    writer.failed(failed);
                    open = 0;
                }
            }
        }
        writer.complete();
    }

    /** Waits for the next event. At the deadline the request fails with {@link GenerationError#TIMEOUT}. */
    private GenerationEvent next() throws InterruptedException {
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

    private void abort(GenerationError error) {
        sequences.forEach(sequence -> sequence.abort(error));
    }

    /** Cancels what still runs; called when the response has ended. */
    @Override
    public void close() {
        cancel();
        onClose.run();
    }
}
