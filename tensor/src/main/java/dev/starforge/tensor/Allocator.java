package dev.starforge.tensor;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A first-fit allocator over regions of device memory, which are reserved as needed and kept until close. The same
 * sequence of requests gives the same addresses: captured steps rely on it, and it makes the memory plan exact. Storage may
 * be freed in any order, so a result can outlive the other tensors of its lifetime without a copy.
 */
final class Allocator {
    static final long ALIGNMENT = 256;
    private static final long FIRST_CHUNK = 1L << 20;
    private static final long LARGEST_STEP = 256L << 20;

    private final DeviceMemory device;
    private final List<Region> chunks = new ArrayList<>();
    private final Set<Memory> adopted = new HashSet<>();
    private long reserved;
    private long grown; // of that, beyond what expect() reserved
    private long used;
    private long peak;
    private boolean closed;

    Allocator(DeviceMemory device) {
        this.device = device;
    }

    /** Reserves memory for allocations of these sizes, in regions no larger than what they will hold. */
    void expect(List<Long> sizes) {
        List<Long> wanted = new ArrayList<>();
        long filled = 0;
        for (long bytes : sizes) {
            long size = aligned(bytes);
            if (filled > 0 && filled + size > LARGEST_STEP) {
                wanted.add(filled);
                filled = 0;
            }
            filled += size;
        }
        if (filled > 0) {
            wanted.add(filled);
        }
        device.reserveAll(wanted).forEach(memory -> {
            chunks.add(new Region(memory));
            reserved += memory.bytes();
        });
    }

    private static long aligned(long bytes) {
        if (bytes > Long.MAX_VALUE - ALIGNMENT) {
            throw new TensorException("allocate " + bytes + " bytes: exceeds the largest possible size");
        }
        return Math.max(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    }

    Storage allocate(long bytes) {
        long size = aligned(bytes);
        Storage block = null;
        for (int i = 0; i < chunks.size() && block == null; i++) {
            block = take(chunks.get(i), size);
        }
        if (block == null) {
            long growth = Math.max(size, Math.min(LARGEST_STEP, Math.max(FIRST_CHUNK, grown)));
            Region chunk = new Region(device.reserve(growth));
            chunks.add(chunk);
            reserved += growth;
            grown += growth;
            block = Objects.requireNonNull(take(chunk, size), "a new chunk has room");
        }
        used += size;
        peak = Math.max(peak, used);
        return block;
    }

    /** Takes ownership of memory that was not reserved here, as one storage. */
    Storage adopt(Memory memory) {
        adopted.add(memory);
        reserved += memory.bytes();
        used += memory.bytes();
        peak = Math.max(peak, used);
        return new Storage(this, memory, 0, memory.bytes());
    }

    private @Nullable Storage take(Region chunk, long size) {
        long offset = chunk.take(size);
        return offset < 0 ? null : new Storage(this, chunk.memory, offset, size);
    }

    void free(Storage block) {
        if (adopted.remove(block.memory())) {
            device.release(block.memory());
            reserved -= block.bytes();
            used -= block.bytes();
            return;
        }
        for (Region chunk : chunks) {
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
        adopted.forEach(device::release);
        adopted.clear();
        used = 0;
        reserved = 0;
    }

    /** The free list of a region by ascending offset, in arrays, because a step allocates and frees hundreds of times. */
    private static final class Region {
        private final Memory memory;
        private long[] offsets = new long[16];
        private long[] lengths = new long[16];
        private int gaps = 1;

        Region(Memory memory) {
            this.memory = memory;
            lengths[0] = memory.bytes();
        }

        /** Allocates from the first gap that is large enough and returns its offset, or -1. */
        long take(long size) {
            for (int i = 0; i < gaps; i++) {
                if (lengths[i] >= size) {
                    long offset = offsets[i];
                    offsets[i] += size;
                    lengths[i] -= size;
                    if (lengths[i] == 0) {
                        remove(i);
                    }
                    return offset;
                }
            }
            return -1;
        }

        void give(long offset, long size) {
            int at = Arrays.binarySearch(offsets, 0, gaps, offset);
            int i = at < 0 ? -at - 1 : at;
            boolean before = i > 0 && offsets[i - 1] + lengths[i - 1] == offset;
            boolean after = i < gaps && offset + size == offsets[i];
            if (before) {
                lengths[i - 1] += size + (after ? lengths[i] : 0);
                if (after) {
                    remove(i);
                }
            } else if (after) {
                offsets[i] = offset;
                lengths[i] += size;
            } else {
                insert(i, offset, size);
            }
        }

        private void remove(int i) {
            gaps--;
            System.arraycopy(offsets, i + 1, offsets, i, gaps - i);
            System.arraycopy(lengths, i + 1, lengths, i, gaps - i);
        }

        private void insert(int i, long offset, long size) {
            if (gaps == offsets.length) {
                offsets = Arrays.copyOf(offsets, 2 * gaps);
                lengths = Arrays.copyOf(lengths, 2 * gaps);
            }
            System.arraycopy(offsets, i, offsets, i + 1, gaps - i);
            System.arraycopy(lengths, i, lengths, i + 1, gaps - i);
            offsets[i] = offset;
            lengths[i] = size;
            gaps++;
        }
    }
}
