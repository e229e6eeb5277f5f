package dev.starforge.cpu.machine;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * A callable kernel: a function of six integers. The downcall is not {@code critical}, so that garbage collection does
 * not wait for it. A wrong address crashes the JVM: the caller checks all addresses.
 */
record MachineKernel(MemorySegment code) {
    private static final MethodHandle CALL_HEAP = Linker.nativeLinker()
            .downcallHandle(
                    FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG),
                    Linker.Option.critical(true));
    private static final MethodHandle CALL = Linker.nativeLinker()
            .downcallHandle(
                    FunctionDescriptor.ofVoid(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG));

    void call(long a, long b, long c, long d, long e, long f) {
        try {
            CALL.invokeExact(code, a, b, c, d, e, f);
        } catch (Throwable t) {
            throw CodePages.thrown(t);
        }
    }

    /**
     * Calls the kernel with a heap array and offsets from it. Garbage collection waits for the call, so it must take
     * microseconds only.
     */
    void callHeap(MemorySegment base, long a, long b, long c, long d) {
        try {
            CALL_HEAP.invokeExact(code, base, a, b, c, d);
        } catch (Throwable t) {
            throw CodePages.thrown(t);
        }
    }
}
