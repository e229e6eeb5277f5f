package dev.starforge.tensor;

/** One allocation: a piece of memory and how many holders (scopes, tapes) still want it. */
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

    /** True when this was the last holder. */
    boolean drop() {
        if (holders == 0) {
            throw new TensorException("block of " + bytes + " bytes released twice");
        }
        return --holders == 0;
    }

    /** Whether its memory went back, or went away with its allocator. */
    boolean freed() {
        return holders == 0 || owner.closed();
    }
}
