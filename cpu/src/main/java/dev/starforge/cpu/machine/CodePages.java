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
 * Linux's memory for code, and for weights, from the C library. A page of code is first writable, then executable, and never
 * both: memory that can be written cannot be executed. A system may forbid either step (SELinux, seccomp, systemd's
 * {@code MemoryDenyWriteExecute}), and says so here.
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

    /** Pages that hold {@code code} and can only be read and run. */
    MemorySegment executable(byte[] code) {
        long bytes = (code.length + PAGE - 1) & -PAGE;
        MemorySegment pages = mmap(bytes);
        if (pages.address() == FAILED) {
            throw new DeviceException("machine code: mmap: the system has no " + bytes + " bytes for code");
        }
        MemorySegment.copy(code, 0, pages, JAVA_BYTE, 0, code.length);
        if (mprotect(pages, PROT_READ | PROT_EXEC) != 0) {
            release(pages);
            throw new DeviceException("machine code: mprotect: the system lets no memory become executable");
        }
        return pages;
    }

    /**
     * Zeros for tensors, in huge pages where the system has some: then one entry of the TLB serves 2 MB of a matrix, and a
     * single token reads it a quarter faster. The zeros are not written, as Java would do.
     *
     * @throws OutOfMemoryError as Java does
     */
    MemorySegment data(Arena arena, long bytes) {
        if (bytes < HUGE_PAGE) {
            return arena.allocate(bytes, 64);
        }
        MemorySegment pages = mmap(bytes + HUGE_PAGE);
        if (pages.address() == FAILED) {
            throw new OutOfMemoryError("mmap: the system has no " + bytes + " bytes");
        }
        MemorySegment all = pages.reinterpret(arena, this::release);
        MemorySegment aligned = all.asSlice(-all.address() & HUGE_PAGE - 1, bytes);
        madvise(aligned);
        return aligned;
    }

    /** {@code int madvise(void *addr, size_t length, int advice)}; advice that is not taken does no harm. */
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
