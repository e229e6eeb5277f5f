package dev.starforge.conformance;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * A device whose steps are counted, and can be blocked, run one by one, and made to fail. It may claim to be asynchronous, but computes
 * at once, which callers that respect the order of operations cannot observe.
 */
final class RecordingDevice extends ForwardingDevice {
    private static final int ALL = 1 << 30;

    /** Tokens of each step so far; 1 for one in which every sequence has one. */
    final List<Integer> steps = new CopyOnWriteArrayList<>();

    final AtomicInteger reads = new AtomicInteger();

    private final int vocabulary;
    private final boolean asynchronous;
    private final Semaphore permits = new Semaphore(ALL);
    private boolean replaying; // on the engine's thread
    private volatile @Nullable RuntimeException failure;
    private volatile @Nullable RuntimeException readFailure;

    RecordingDevice(Device device, int vocabulary, boolean asynchronous) {
        super(device);
        this.vocabulary = vocabulary;
        this.asynchronous = asynchronous;
    }

    @Override
    public boolean asynchronous() {
        return asynchronous;
    }

    /** A step with prompt chunks begins with the embedding of its tokens. */
    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        if (!replaying && op instanceof Plain.Gather && in[0].dim(0) == vocabulary) {
            begin(Math.toIntExact(in[1].shape().size()));
        }
        super.run(op, in, out);
    }

    /** A decode step, which may be captured. */
    @Override
    public void replay(Object key, Runnable step) {
        begin(1);
        replaying = true;
        super.replay(key, step);
        replaying = false;
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        reads.incrementAndGet();
        RuntimeException thrown = readFailure;
        if (thrown != null) {
            throw thrown;
        }
        super.read(from, to);
    }

    private void begin(int rows) {
        permits.acquireUninterruptibly();
        steps.add(rows);
        RuntimeException thrown = failure;
        if (thrown != null) {
            throw thrown;
        }
    }

    /** Blocks all further steps. */
    void pause() {
        permits.drainPermits();
    }

    /** Lets {@code count} steps run, and waits until the next one is blocked. */
    void allow(int count) throws InterruptedException {
        int until = steps.size() + count;
        permits.release(count);
        TinyServer.await("the step after " + count, () -> steps.size() == until && isHeld());
    }

    void resume() {
        permits.release(ALL - permits.availablePermits());
    }

    /** Returns true if a step is blocked. */
    boolean isHeld() {
        return permits.hasQueuedThreads();
    }

    /** Makes all further launches fail. */
    void failWith(RuntimeException thrown) {
        failure = thrown;
    }

    /** Makes all further reads fail. */
    void failReadsWith(RuntimeException thrown) {
        readFailure = thrown;
    }

    int computed() {
        return steps.stream().mapToInt(Integer::intValue).sum();
    }
}
