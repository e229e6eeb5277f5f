package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;

/**
 * Bindings of the functions of Metal and the Objective-C runtime that describe the GPU, under their C names. The class initializes
 * only if Metal is installed. objc_msgSend is not variadic here: it has one handle per result type.
 */
@SuppressWarnings("restricted") // native access is granted to this module at launch
final class Metal {
    private static final SymbolLookup OBJC = SymbolLookup.libraryLookup("/usr/lib/libobjc.A.dylib", Arena.global());

    private static final SymbolLookup METAL =
            SymbolLookup.libraryLookup("/System/Library/Frameworks/Metal.framework/Metal", Arena.global());

    static {
        // without CoreGraphics there is no default device
        SymbolLookup.libraryLookup("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics", Arena.global());
    }

    private static final MethodHandle MTLCreateSystemDefaultDevice =
            handle(METAL, "MTLCreateSystemDefaultDevice", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle sel_registerName =
            handle(OBJC, "sel_registerName", FunctionDescriptor.of(ADDRESS, ADDRESS));
    private static final MethodHandle objc_release = handle(OBJC, "objc_release", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle objc_autoreleasePoolPush =
            handle(OBJC, "objc_autoreleasePoolPush", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle objc_autoreleasePoolPop =
            handle(OBJC, "objc_autoreleasePoolPop", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle objc_msgSend =
            handle(OBJC, "objc_msgSend", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS));
    private static final MethodHandle objc_msgSend_long =
            handle(OBJC, "objc_msgSend", FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS));
    private static final MethodHandle objc_msgSend_bool =
            handle(OBJC, "objc_msgSend", FunctionDescriptor.of(JAVA_BOOLEAN, ADDRESS, ADDRESS));

    private Metal() {}

    private static MethodHandle handle(SymbolLookup library, String function, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(library.findOrThrow(function), type);
    }

    // id<MTLDevice> MTLCreateSystemDefaultDevice(void);
    static MemorySegment MTLCreateSystemDefaultDevice() {
        try {
            return (MemorySegment) MTLCreateSystemDefaultDevice.invokeExact();
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    // SEL sel_registerName(const char *name);
    private static MemorySegment sel_registerName(String name) {
        try (Arena arena = Arena.ofConfined()) {
            return (MemorySegment) sel_registerName.invokeExact(arena.allocateFrom(name));
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    // void objc_release(id object);
    static void objc_release(MemorySegment object) {
        try {
            objc_release.invokeExact(object);
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    // void *objc_autoreleasePoolPush(void);
    static MemorySegment objc_autoreleasePoolPush() {
        try {
            return (MemorySegment) objc_autoreleasePoolPush.invokeExact();
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    // void objc_autoreleasePoolPop(void *pool);
    static void objc_autoreleasePoolPop(MemorySegment pool) {
        try {
            objc_autoreleasePoolPop.invokeExact(pool);
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    // id objc_msgSend(id self, SEL selector);
    static MemorySegment objc_msgSend(MemorySegment self, String selector) {
        MemorySegment registered = sel_registerName(selector);
        try {
            return (MemorySegment) objc_msgSend.invokeExact(self, registered);
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    // uint64_t objc_msgSend(id self, SEL selector);
    static long objc_msgSend_long(MemorySegment self, String selector) {
        MemorySegment registered = sel_registerName(selector);
        try {
            return (long) objc_msgSend_long.invokeExact(self, registered);
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    // BOOL objc_msgSend(id self, SEL selector);
    static boolean objc_msgSend_bool(MemorySegment self, String selector) {
        MemorySegment registered = sel_registerName(selector);
        try {
            return (boolean) objc_msgSend_bool.invokeExact(self, registered);
        } catch (Throwable thrown) {
            throw unchecked(thrown);
        }
    }

    /** The text of an NSString. */
    static String text(MemorySegment string) {
        return objc_msgSend(string, "UTF8String").reinterpret(Long.MAX_VALUE).getString(0);
    }

    private static RuntimeException unchecked(Throwable thrown) {
        return switch (thrown) {
            case RuntimeException e -> e;
            case Error e -> throw e;
            default -> new IllegalStateException("a native call failed", thrown);
        };
    }
}
