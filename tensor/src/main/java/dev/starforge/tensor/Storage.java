package dev.starforge.tensor;

/** One allocation, with a reference count of its holders (scopes and tapes). */
public final class Storage {
    private final Allocator owner;
    private final Memory memory;
    private final long offset;
    private final long bytes;
    private int holders = 1;

    Storage(Allocator owner, Memory memory, long offset, long bytes) {
        this.owner = owner;
        this.memory = memory;
        this.offset = offset;
        this.bytes = bytes;
    }

    Memory memory() {
        return memory;
    }

    long offset() {
        return offset;
    }

    long bytes() {
        return bytes;
    }

    void hold() {
        holders++;
    }

    /** Drops one reference and returns true if it was the last. */
    boolean drop() {
        if (holders == 0) {
            throw new TensorException("block of " + bytes + " bytes released twice");
        }
        return --holders == 0;
    }

    /** Returns true if the memory was freed, or its allocator closed. */
    boolean freed() {
        return holders == 0 || owner.closed();
    }
}
