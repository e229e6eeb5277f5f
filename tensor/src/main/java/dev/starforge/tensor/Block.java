package dev.starforge.tensor;

/** One allocation: a piece of memory and how many holders (scopes, tapes) still want it. */
final class Block {
    private final Memory memory;
    private final long offset;
    private final long bytes;
    private int holders = 1;

    Block(Memory memory, long offset, long bytes) {
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

    /** The memory is gone whoever holds it: later use of a tensor in it throws. */
    void abandon() {
        holders = 0;
    }

    boolean freed() {
        return holders == 0;
    }
}
