package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** Bindings of the messages of Foundation. Results are autoreleased: call these within an {@link AutoreleasePool}. */
final class Foundation {
    private static final MethodHandle stringWithUTF8String =
            ObjcRuntime.message("+NSString", "stringWithUTF8String:", FunctionDescriptor.of(ADDRESS, ADDRESS));
    private static final MethodHandle UTF8String =
            ObjcRuntime.message("NSString", "UTF8String", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle localizedDescription =
            ObjcRuntime.message("NSError", "localizedDescription", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle code = ObjcRuntime.message("NSError", "code", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle count = ObjcRuntime.message("NSArray", "count", FunctionDescriptor.of(JAVA_LONG));
    private static final MethodHandle objectAtIndex =
            ObjcRuntime.message("NSArray", "objectAtIndex:", FunctionDescriptor.of(ADDRESS, JAVA_LONG));
    private static final MethodHandle processInfo =
            ObjcRuntime.message("+NSProcessInfo", "processInfo", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle operatingSystemVersionString =
            ObjcRuntime.message("NSProcessInfo", "operatingSystemVersionString", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle physicalMemory =
            ObjcRuntime.message("NSProcessInfo", "physicalMemory", FunctionDescriptor.of(JAVA_LONG));

    private Foundation() {}

    // + (instancetype)stringWithUTF8String:(const char *)nullTerminatedCString;
    static MemorySegment stringWithUTF8String(String text) {
        MemorySegment type = ObjcRuntime.objc_getClass("NSString");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment string = (MemorySegment) stringWithUTF8String.invokeExact(type, arena.allocateFrom(text));
            return ObjcRuntime.required(string, "stringWithUTF8String:");
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) const char *UTF8String;
    @SuppressWarnings("restricted") // the string belongs to the pool; its length is unknown
    static String UTF8String(MemorySegment string) {
        try {
            MemorySegment text = (MemorySegment) UTF8String.invokeExact(string);
            return ObjcRuntime.required(text, "UTF8String")
                    .reinterpret(Long.MAX_VALUE)
                    .getString(0);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly, copy) NSString *localizedDescription;
    static MemorySegment localizedDescription(MemorySegment error) {
        try {
            return (MemorySegment) localizedDescription.invokeExact(error);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSInteger code;
    static long code(MemorySegment error) {
        try {
            return (long) code.invokeExact(error);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) NSUInteger count;
    static long count(MemorySegment array) {
        try {
            return (long) count.invokeExact(array);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // - (ObjectType)objectAtIndex:(NSUInteger)index;
    static MemorySegment objectAtIndex(MemorySegment array, long index) {
        try {
            return (MemorySegment) objectAtIndex.invokeExact(array, index);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(class, readonly, strong) NSProcessInfo *processInfo;
    static MemorySegment processInfo() {
        MemorySegment type = ObjcRuntime.objc_getClass("NSProcessInfo");
        try {
            return ObjcRuntime.required((MemorySegment) processInfo.invokeExact(type), "processInfo");
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly, copy) NSString *operatingSystemVersionString;
    static MemorySegment operatingSystemVersionString(MemorySegment processInfo) {
        try {
            return (MemorySegment) operatingSystemVersionString.invokeExact(processInfo);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    // @property(readonly) unsigned long long physicalMemory;
    static long physicalMemory(MemorySegment processInfo) {
        try {
            return (long) physicalMemory.invokeExact(processInfo);
        } catch (Throwable thrown) {
            throw ObjcRuntime.unchecked(thrown);
        }
    }

    /** The text of an NSError; of nil, a text that says so. */
    static String describe(MemorySegment error) {
        return error.address() == 0 ? "no error was given" : UTF8String(localizedDescription(error));
    }
}
