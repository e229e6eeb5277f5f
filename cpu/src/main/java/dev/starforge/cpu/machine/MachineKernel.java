package dev.starforge.cpu.machine;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/**
 * Code that can be called: a function of six integers. The call is an ordinary one, not {@code critical}, so that a collection
 * need not wait for it. A wrong address crashes the JVM: the caller checks all addresses.
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
     * A call that may reach into an array, of an address and distances from it. A collection waits for it, so it is to be one of
     * microseconds.
     */
    void callHeap(MemorySegment base, long a, long b, long c, long d) {
        try {
            CALL_HEAP.invokeExact(code, base, a, b, c, d);
        } catch (Throwable t) {
            throw CodePages.thrown(t);
        }
    }
}
