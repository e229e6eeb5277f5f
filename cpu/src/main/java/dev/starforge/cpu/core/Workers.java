package dev.starforge.cpu.core;

import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * A few threads that share one operation at a time. Work comes as numbered chunks whose size follows from the shape;
 * a free thread takes the next number. A chunk computes the same bits on any thread, so the number of threads never
 * shows in a result. The calling thread works too. A generation step fires hundreds of small operations: a worker that has
 * nothing to do spins for some microseconds before it parks, and a single chunk never leaves the caller.
 *
 * <p>Serial, as the device is: one thread calls, and no chunk calls back.
 */
public final class Workers implements AutoCloseable {
    private static final int SPINS = 2000;
    private static final int STRIPS_IN_CHUNK = 8;
    private static final int ALIGNMENT = 64;

    private final Worker[] others;
    private float[] scratch = {};
    private int[] ints = {};
    private Arena arena = Arena.ofShared();
    private MemorySegment outside = MemorySegment.NULL;
    private int shared;
    private int each;
    private long sharedBytes;
    private long eachBytes;
    private volatile @Nullable RunningTask job;
    private volatile boolean closed;

    /** One chunk of an operation, with the worker's own scratch at {@code at}. */
    public interface ChunkTask {
        public void run(long chunk, float[] s, int at);
    }

    /** At most {@link Scratch#STRIP} elements of an operation on flat arrays. */
    public interface StripBody {
        public void run(long from, int count, float[] s, int at);
    }

    public Workers(int threads) {
        others = new Worker[threads - 1];
        for (int i = 0; i < others.length; i++) {
            others[i] = new Worker(i + 1);
        }
        for (Worker worker : others) {
            worker.start();
        }
    }

    public int threads() {
        return others.length + 1;
    }

    /** Lays out the scratch of the next operation. Grows to exactly what the largest one needs; never shrinks. */
    public void reserve(Scratch need) {
        long floats = need.floats(threads());
        if (scratch.length < floats || ints.length < need.ints()) {
            grow(Math.max(scratch.length, floats), Math.max(ints.length, need.ints()));
        }
        if (outside.byteSize() < need.outside(threads())) {
            growOutside(need.outside(threads()));
        }
        shared = (int) need.shared();
        each = (int) need.each();
        sharedBytes = need.bytes();
        eachBytes = need.eachBytes();
    }

    private void growOutside(long bytes) {
        outside = MemorySegment.NULL;
        arena.close();
        arena = Arena.ofShared();
        try {
            outside = arena.allocate(bytes, ALIGNMENT);
        } catch (OutOfMemoryError full) {
            throw new MemoryException("cpu: " + bytes + " bytes of scratch: the system has not as much", full);
        }
    }

    /** The old arrays go first, as far as no worker's last job holds them. */
    private void grow(long floats, long whole) {
        scratch = new float[0];
        ints = new int[0];
        try {
            scratch = new float[Math.toIntExact(floats)];
            ints = new int[Math.toIntExact(whole)];
        } catch (OutOfMemoryError | ArithmeticException full) {
            throw new MemoryException(
                    "cpu: " + floats + " floats and " + whole + " ints of scratch: the Java heap has not as much",
                    full);
        }
    }

    public long scratchBytes() {
        return (long) scratch.length * Float.BYTES + (long) ints.length * Integer.BYTES + outside.byteSize();
    }

    /** The native memory that the present operation asked for, all workers' together. */
    public MemorySegment bytes() {
        return outside;
    }

    /** Where in it the bytes are of the worker whose floats are at {@code at}. */
    public long ownBytes(int at) {
        return sharedBytes + (at - shared) / each * eachBytes;
    }

    /** The ints that the present operation asked for. */
    public int[] ints() {
        return ints;
    }

    /** Runs chunks 0..chunks-1 in any order and returns when all are done; the first failure is thrown here. */
    public void run(long chunks, ChunkTask body) {
        if (closed) {
            throw new DeviceException("cpu: the device is closed");
        }
        if (chunks <= 1 || others.length == 0) {
            for (long chunk = 0; chunk < chunks; chunk++) {
                body.run(chunk, scratch, shared);
            }
            return;
        }
        RunningTask next = new RunningTask(chunks, body, scratch, shared, each, Thread.currentThread());
        job = next;
        for (int i = 0; i < others.length && i < chunks - 1; i++) {
            others[i].wake();
        }
        next.work(0);
        next.await();
    }

    /** Runs over {@code size} elements strip by strip. */
    public void strips(long size, StripBody body) {
        long chunk = (long) Scratch.STRIP * STRIPS_IN_CHUNK;
        run(count(size, chunk), (index, s, at) -> {
            long end = Math.min(size, (index + 1) * chunk);
            for (long from = index * chunk; from < end; from += Scratch.STRIP) {
                body.run(from, (int) Math.min(Scratch.STRIP, end - from), s, at);
            }
        });
    }

    /** Runs over rows of {@code width} elements, several short rows to a chunk. */
    public void rows(long rows, long width, ChunkTask body) {
        long chunk = Math.max(1, Scratch.STRIP * STRIPS_IN_CHUNK / Math.max(1, width));
        run(count(rows, chunk), (index, s, at) -> {
            long end = Math.min(rows, (index + 1) * chunk);
            for (long row = index * chunk; row < end; row++) {
                body.run(row, s, at);
            }
        });
    }

    /** How many chunks of {@code chunk} cover {@code size}. */
    public static long count(long size, long chunk) {
        return (size + chunk - 1) / chunk;
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        scratch = new float[0];
        ints = new int[0];
        outside = MemorySegment.NULL;
        arena.close();
        for (Worker worker : others) {
            LockSupport.unpark(worker);
        }
    }

    private static final class RunningTask {
        private final long chunks;
        private final ChunkTask body;
        private final float[] scratch;
        private final int shared;
        private final int each;
        private final Thread caller;
        private final AtomicLong next = new AtomicLong();
        private final AtomicLong left;
        private volatile @Nullable Throwable failure;

        RunningTask(long chunks, ChunkTask body, float[] scratch, int shared, int each, Thread caller) {
            this.chunks = chunks;
            this.body = body;
            this.scratch = scratch;
            this.shared = shared;
            this.each = each;
            this.caller = caller;
            this.left = new AtomicLong(chunks);
        }

        void work(int worker) {
            int at = shared + worker * each;
            long taken = 0;
            try {
                for (long chunk = next.getAndIncrement(); chunk < chunks; chunk = next.getAndIncrement()) {
                    taken++;
                    try {
                        if (failure == null) {
                            body.run(chunk, scratch, at);
                        }
                    } catch (RuntimeException | Error e) {
                        failure = failure == null ? e : failure;
                    }
                }
            } catch (InternalError late) { // of a mapped file; the JVM throws it some instructions after the read
                failure = failure == null ? late : failure;
                taken += Math.max(0, chunks - next.getAndSet(chunks));
            } finally {
                if (taken > 0 && left.addAndGet(-taken) == 0) {
                    LockSupport.unpark(caller);
                }
            }
        }

        void await() {
            for (int spin = 0; spin < SPINS && left.get() > 0; spin++) {
                Thread.onSpinWait();
            }
            while (left.get() > 0) {
                LockSupport.park(this);
            }
            if (failure instanceof Error e) {
                throw e;
            }
            if (failure instanceof RuntimeException e) {
                throw e;
            }
        }
    }

    private final class Worker extends Thread {
        private final int index;
        private volatile boolean parked;

        Worker(int index) {
            super("starforge-cpu-" + index);
            this.index = index;
            setDaemon(true);
        }

        void wake() {
            if (parked) {
                LockSupport.unpark(this);
            }
        }

        @Override
        public void run() {
            RunningTask last = null;
            while (!closed) {
                RunningTask next = job;
                for (int spin = 0; spin < SPINS && next == last && !closed; spin++) {
                    Thread.onSpinWait();
                    next = job;
                }
                if (next == null || next == last) {
                    parked = true;
                    if (job == last && !closed) {
                        LockSupport.park(Workers.this);
                    }
                    parked = false;
                } else {
                    last = next;
                    next.work(index);
                }
            }
        }
    }
}
