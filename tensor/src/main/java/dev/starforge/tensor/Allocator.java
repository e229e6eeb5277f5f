package dev.starforge.tensor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * First fit by address over chunks that are reserved as needed and kept until close. The same sequence of requests gives
 * the same addresses, which captured steps rely on and which lets a plan made on the null device be exact. Blocks may be
 * freed in any order: a block's result can outlive its neighbours without being copied, which a plain stack cannot do.
 */
final class Allocator {
    static final long ALIGNMENT = 256;
    private static final long FIRST_CHUNK = 1L << 20;
    private static final long LARGEST_STEP = 256L << 20;

    private final Device device;
    private final List<Chunk> chunks = new ArrayList<>();
    private long reserved;
    private long used;
    private long peak;
    private boolean closed;

    Allocator(Device device) {
        this.device = device;
    }

    Block allocate(long bytes) {
        if (bytes > Long.MAX_VALUE - ALIGNMENT) {
            throw new TensorException("allocate " + bytes + " bytes: more than there can be");
        }
        long size = Math.max(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        Block block = null;
        for (int i = 0; i < chunks.size() && block == null; i++) {
            block = take(chunks.get(i), size);
        }
        if (block == null) {
            long growth = Math.max(size, Math.min(LARGEST_STEP, Math.max(FIRST_CHUNK, reserved)));
            Chunk chunk = new Chunk(device.reserve(growth));
            chunks.add(chunk);
            reserved += growth;
            block = take(chunk, size);
        }
        used += size;
        peak = Math.max(peak, used);
        return block;
    }

    private Block take(Chunk chunk, long size) {
        long offset = chunk.take(size);
        return offset < 0 ? null : new Block(this, chunk.memory, offset, size);
    }

    void free(Block block) {
        for (Chunk chunk : chunks) {
            if (chunk.memory == block.memory()) {
                chunk.give(block.offset(), block.bytes());
                used -= block.bytes();
                return;
            }
        }
        throw new TensorException("block of " + block.bytes() + " bytes belongs to another allocator");
    }

    long used() {
        return used;
    }

    long peak() {
        return peak;
    }

    long reserved() {
        return reserved;
    }

    boolean closed() {
        return closed;
    }

    void close() {
        closed = true;
        chunks.forEach(chunk -> device.release(chunk.memory));
        chunks.clear();
        used = 0;
        reserved = 0;
    }

    private static final class Chunk {
        private final Memory memory;
        private final TreeMap<Long, Long> free = new TreeMap<>();

        Chunk(Memory memory) {
            this.memory = memory;
            free.put(0L, memory.bytes());
        }

        /** Where a gap of this size began that is taken now, or -1. */
        long take(long size) {
            for (Map.Entry<Long, Long> gap : free.entrySet()) {
                long offset = gap.getKey();
                long length = gap.getValue();
                if (length >= size) {
                    free.remove(offset);
                    if (length > size) {
                        free.put(offset + size, length - size);
                    }
                    return offset;
                }
            }
            return -1;
        }

        void give(long offset, long size) {
            Map.Entry<Long, Long> before = free.lowerEntry(offset);
            if (before != null && before.getKey() + before.getValue() == offset) {
                free.remove(before.getKey());
                offset = before.getKey();
                size += before.getValue();
            }
            Long after = free.remove(offset + size);
            free.put(offset, after == null ? size : size + after);
        }
    }
}
