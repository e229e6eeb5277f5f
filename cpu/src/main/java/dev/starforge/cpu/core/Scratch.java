package dev.starforge.cpu.core;

/**
 * The floats an operation works in: one part that all workers share and one part for each worker. All of it is in one
 * heap array that the device keeps, because kernels over heap arrays are a third faster than kernels over segments, and
 * because one array makes the plan exact: what is held is what the largest operation asked for.
 *
 * @param shared floats every worker sees
 * @param each floats of a worker's own
 * @param ints ints every worker sees, in an array beside
 * @param bytes of native memory that every worker sees, for machine code, which cannot reach the heap
 * @param eachBytes of native memory of a worker's own
 */
public record Scratch(long shared, long each, long ints, long bytes, long eachBytes) {
    /** Floats in a strip: what a kernel takes from memory at a time. Four strips fill a first level cache. */
    public static final int STRIP = 2048;

    /** What operations that go strip by strip need: at most six strips, and the lanes of {@link Sums}. */
    public static final Scratch STRIPS = new Scratch(0, 6 * STRIP + Sums.LANES);

    public Scratch(long shared, long each) {
        this(shared, each, 0);
    }

    public Scratch(long shared, long each, long ints) {
        this(shared, each, ints, 0, 0);
    }

    /** Enough for this and for another. */
    public Scratch or(Scratch other) {
        return new Scratch(
                Math.max(shared, other.shared),
                Math.max(each, other.each),
                Math.max(ints, other.ints),
                Math.max(bytes, other.bytes),
                Math.max(eachBytes, other.eachBytes));
    }

    public long bytes(int threads) {
        return Float.BYTES * floats(threads) + Integer.BYTES * ints + outside(threads);
    }

    /** Bytes outside of the heap. */
    long outside(int threads) {
        return bytes + eachBytes * threads;
    }

    long floats(int threads) {
        return shared + each * threads;
    }
}
