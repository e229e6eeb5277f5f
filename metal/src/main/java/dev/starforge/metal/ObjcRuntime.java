package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;

import dev.starforge.tensor.device.DeviceException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Bindings of the Objective-C runtime, under their C names. The class initializes only if Metal is installed.
 *
 * <p>objc_msgSend is not one function but has the type of the method that it calls, so each message has a handle with its own
 * descriptor. It is never variadic: on arm64 variadic arguments are passed on the stack. Messages that return structs are not used.
 */
final class ObjcRuntime {
    private static final SymbolLookup LIBRARY = library(MetalLibraries.current().objc());

    private static final MethodHandle objc_getClass =
            handle(LIBRARY, "objc_getClass", FunctionDescriptor.of(ADDRESS, ADDRESS));
    private static final MethodHandle sel_registerName =
            handle(LIBRARY, "sel_registerName", FunctionDescriptor.of(ADDRESS, ADDRESS));
    private static final MethodHandle objc_retain =
            handle(LIBRARY, "objc_retain", FunctionDescriptor.of(ADDRESS, ADDRESS));
    private static final MethodHandle objc_release =
            handle(LIBRARY, "objc_release", FunctionDescriptor.ofVoid(ADDRESS));
    private static final MethodHandle objc_autoreleasePoolPush =
            handle(LIBRARY, "objc_autoreleasePoolPush", FunctionDescriptor.of(ADDRESS));
    private static final MethodHandle objc_autoreleasePoolPop =
            handle(LIBRARY, "objc_autoreleasePoolPop", FunctionDescriptor.ofVoid(ADDRESS));

    private static final List<Message> MESSAGES = new CopyOnWriteArrayList<>();

    private ObjcRuntime() {}

    /**
     * A message as this backend sends it, which a test compares with the type encoding of the method.
     *
     * @param receiver class or protocol; begins with + if the class itself is the receiver
     * @param type result and arguments, without receiver and selector
     */
    record Message(String receiver, String selector, FunctionDescriptor type) {}

    /** All messages whose bindings are initialized. */
    static List<Message> messages() {
        return List.copyOf(MESSAGES);
    }

    @SuppressWarnings("restricted") // native access is granted to this module at launch
    static SymbolLookup library(String name) {
        return SymbolLookup.libraryLookup(name, Arena.global());
    }

    @SuppressWarnings("restricted")
    static MethodHandle handle(SymbolLookup library, String function, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(library.findOrThrow(function), type);
    }

    /** A handle whose first argument is the receiver; {@code type} has the result and the other arguments. */
    static MethodHandle message(String receiver, String selector, FunctionDescriptor type) {
        MESSAGES.add(new Message(receiver, selector, type));
        MethodHandle send = handle(LIBRARY, "objc_msgSend", type.insertArgumentLayouts(0, ADDRESS, ADDRESS));
        return MethodHandles.insertArguments(send, 1, sel_registerName(selector));
    }

    // Class objc_getClass(const char *name);
    static MemorySegment objc_getClass(String name) {
        try (Arena arena = Arena.ofConfined()) {
            return required((MemorySegment) objc_getClass.invokeExact(arena.allocateFrom(name)), "class " + name);
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

    // id objc_retain(id object);
    static MemorySegment objc_retain(MemorySegment object) {
        try {
            return (MemorySegment) objc_retain.invokeExact(object);
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

    /** Returns the object. Throws if it is nil: nil answers every message with 0, so a failure would go unnoticed. */
    static MemorySegment required(MemorySegment object, String operation) {
        if (object.address() == 0) {
            throw new DeviceException("metal: " + operation + ": the result is nil");
        }
        return object;
    }

    /** Wraps a throwable of a downcall, which throws no checked exceptions. */
    static RuntimeException unchecked(Throwable thrown) {
        return switch (thrown) {
            case RuntimeException e -> e;
            case Error e -> throw e;
            default -> new DeviceException("a native call failed", thrown);
        };
    }
}
