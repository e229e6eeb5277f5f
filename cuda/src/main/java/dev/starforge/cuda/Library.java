package dev.starforge.cuda;

import dev.starforge.tensor.device.DeviceException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.List;
import java.util.Optional;

/**
 * A native library that may not be there. Absence is a value with a reason, not a failure to load a class: bindings of
 * a missing library still initialize, and calling one throws the reason.
 */
sealed interface Library {
    /** It was loaded under {@code name}. */
    record Found(String name, SymbolLookup symbols) implements Library {}

    /** It was not, and {@code reason} says so to people. */
    record Missing(String reason) implements Library {}

    /** The first of {@code names} that loads. */
    @SuppressWarnings("restricted") // native access is granted to this module at launch
    static Library open(String missing, List<String> names) {
        for (String name : names) {
            try {
                return new Found(name, SymbolLookup.libraryLookup(name, Arena.global()));
            } catch (IllegalArgumentException absent) {
                continue; // the only way to ask the dynamic linker
            } catch (IllegalCallerException denied) {
                return new Missing("native access is not granted to module dev.starforge.cuda");
            }
        }
        return new Missing(missing);
    }

    /** A handle on a C function; one that throws why not where the library or the function is missing. */
    @SuppressWarnings("restricted")
    default MethodHandle handle(String function, FunctionDescriptor type) {
        return switch (this) {
            case Missing missing -> throwing(missing.reason(), type);
            case Found found -> {
                Optional<MemorySegment> symbol = found.symbols().find(function);
                yield symbol.isPresent()
                        ? Linker.nativeLinker().downcallHandle(symbol.get(), type)
                        : throwing(found.name() + " is too old: it has no " + function, type);
            }
        };
    }

    private static MethodHandle throwing(String reason, FunctionDescriptor descriptor) {
        MethodType type = descriptor.toMethodType();
        MethodHandle thrower = MethodHandles.throwException(type.returnType(), DeviceException.class);
        MethodHandle lazy =
                MethodHandles.filterReturnValue(MethodHandles.insertArguments(NEW_EXCEPTION, 0, reason), thrower);
        return MethodHandles.dropArguments(lazy, 0, type.parameterList());
    }

    /** What a downcall can throw besides what it is meant to: nothing that is checked. */
    static RuntimeException unchecked(Throwable thrown) {
        return switch (thrown) {
            case RuntimeException e -> e;
            case Error e -> throw e;
            default -> new DeviceException("a native call failed", thrown);
        };
    }

    MethodHandle NEW_EXCEPTION = newException();

    private static MethodHandle newException() {
        try {
            return MethodHandles.lookup()
                    .findConstructor(DeviceException.class, MethodType.methodType(void.class, String.class));
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("DeviceException(String)", e);
        }
    }
}
