package dev.starforge.metal;

import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.Optional;

/**
 * An MTLBuffer in shared storage, which CPU and GPU address alike, or a part of one.
 *
 * @param buffer the owned object
 * @param begin offset of the memory in the buffer
 * @param contents the memory
 * @param mapping of the file that the buffer consists of
 */
record MetalMemory(MemorySegment buffer, long begin, MemorySegment contents, Optional<Arena> mapping)
        implements Memory {
    /** Pages of Apple silicon. Address and length of a buffer over existing memory are multiples of them. */
    private static final long PAGE = 16 << 10;

    /** Kernels load 16 bytes at once from tensors whose offset in their memory is a multiple of 16. */
    private static final long ALIGNMENT = 16;

    private static final long PIECE = 16 << 20;

    /** Allocates memory of a device; the result is nil if there is not enough. */
    @SuppressWarnings("restricted") // the buffer has the requested size
    static MetalMemory allocate(MemorySegment device, long bytes) {
        MemorySegment buffer =
                MetalDriver.newBufferWithLength_options(device, Math.max(1, bytes), MetalDriver.SHARED_UNTRACKED);
        MemorySegment contents = buffer.address() == 0
                ? MemorySegment.NULL
                : ObjcRuntime.required(MetalDriver.contents(buffer), "contents").reinterpret(bytes);
        return new MetalMemory(buffer, 0, contents, Optional.empty());
    }

    /** Returns true if a buffer over the pages of a file can hold the region, where kernels expect it. */
    static boolean canMap(FileRegion region) {
        return region.from() % ALIGNMENT == 0 && region.bytes() > 0;
    }

    /** The bytes of a buffer over the pages of a region. */
    static long mappedBytes(FileRegion region) {
        return Math.ceilDiv(region.from() % PAGE + region.bytes(), PAGE) * PAGE;
    }

    /** Maps a region of a file, without a copy; the result is nil if Metal refuses it. */
    static MetalMemory map(MemorySegment device, FileRegion region) {
        long begin = region.from() % PAGE;
        Arena arena = Arena.ofShared();
        try (FileChannel channel = FileChannel.open(region.file(), StandardOpenOption.READ)) {
            if (region.from() > channel.size() - region.bytes()) {
                throw new EOFException("the file ends at " + channel.size());
            }
            MemorySegment pages =
                    channel.map(FileChannel.MapMode.READ_ONLY, region.from() - begin, begin + region.bytes(), arena);
            MemorySegment buffer = MetalDriver.newBufferWithBytesNoCopy_length_options_deallocator(
                    device, pages, mappedBytes(region), MetalDriver.SHARED_UNTRACKED, MemorySegment.NULL);
            if (buffer.address() == 0) {
                arena.close();
            }
            return new MetalMemory(buffer, begin, pages.asSlice(begin), Optional.of(arena));
        } catch (IOException failure) {
            arena.close();
            throw new DeviceException("map " + region + ": " + failure, failure);
        }
    }

    /** Reads a region of a file. */
    void read(FileRegion region) {
        try (FileChannel channel = FileChannel.open(region.file(), StandardOpenOption.READ)) {
            for (long at = 0; at < region.bytes(); ) {
                ByteBuffer piece = contents.asSlice(at, Math.min(PIECE, region.bytes() - at))
                        .asByteBuffer();
                int bytes = channel.read(piece, region.from() + at);
                if (bytes < 0) {
                    throw new EOFException("the file ends at " + channel.size());
                }
                at += bytes;
            }
        } catch (IOException failure) {
            throw new DeviceException("read " + region + ": " + failure, failure);
        }
    }

    static MetalMemory of(Tensor tensor) {
        return (MetalMemory) tensor.memory();
    }

    /** The bytes of a tensor. */
    static MemorySegment segment(Tensor tensor) {
        return of(tensor).contents.asSlice(tensor.offset(), tensor.bytes());
    }

    boolean isNil() {
        return buffer.address() == 0;
    }

    void release() {
        ObjcRuntime.objc_release(buffer);
        mapping.ifPresent(Arena::close);
    }

    @Override
    public long bytes() {
        return contents.byteSize();
    }
}
