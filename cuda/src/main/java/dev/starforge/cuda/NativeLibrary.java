package dev.starforge.cuda;

import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/**
 * An optional native library. A missing library is a value with a reason, not a failure to load a class: its bindings initialize,
 * and calling one throws the reason.
 */
sealed interface NativeLibrary {
    /** A library that was loaded as {@code name}. */
    record Found(String name, SymbolLookup symbols) implements NativeLibrary {}

    /** A missing library; {@code reason} is a message for users. */
    record Missing(String reason) implements NativeLibrary {}

    /** Loads the first of {@code names} that exists. */
    static NativeLibrary open(String missing, List<String> names) {
        return open(missing, names, NativeLibrary::load);
    }

    /** @param loader looks up a library, throws {@link IllegalArgumentException} if there is none */
    static NativeLibrary open(String missing, List<String> names, Function<String, SymbolLookup> loader) {
        for (String name : names) {
            try {
                return new Found(name, loader.apply(name));
            } catch (IllegalArgumentException e) {
                continue; // the only way to ask the dynamic linker
            } catch (IllegalCallerException denied) {
                return new Missing("native access is not granted to module dev.starforge.cuda");
            }
        }
        return new Missing(missing);
    }

    @SuppressWarnings("restricted") // native access is granted to this module at launch
    private static SymbolLookup load(String name) {
        return SymbolLookup.libraryLookup(name, Arena.global());
    }

    /**
     * Candidate paths of a CUDA toolkit library: the dynamic linker's search path, to which the launcher adds CUDA_HOME and an active
     * Python environment; the toolkit's folders; and the folders of NVIDIA's Python packages. Newest names come first.
     */
    static List<String> searchPaths(String... names) {
        return searchPaths(Path.of("/"), names);
    }

    static List<String> searchPaths(Path root, String... names) {
        List<Path> folders = new ArrayList<>();
        for (String pattern : List.of(
                "usr/local/cuda/lib64",
                "usr/local/cuda/targets/*-linux/lib",
                "usr/local/cuda-*/lib64",
                "opt/cuda/lib64",
                "usr/lib/python3*/{site,dist}-packages/nvidia/*/lib",
                "usr/local/lib/python3*/{site,dist}-packages/nvidia/*/lib",
                "opt/*/lib/python3*/{site,dist}-packages/nvidia/*/lib",
                "opt/*/.venv/lib/python3*/{site,dist}-packages/nvidia/*/lib")) {
            folders.addAll(matching(root, pattern));
        }
        List<String> places = new ArrayList<>(List.of(names));
        for (Path folder : folders) {
            for (String name : names) {
                places.add(folder.resolve(name).toString());
            }
        }
        return places;
    }

    /** Expands a path pattern level by level. */
    private static List<Path> matching(Path root, String pattern) {
        List<Path> found = List.of(root);
        for (String name : pattern.split("/")) {
            List<Path> deeper = new ArrayList<>();
            for (Path folder : found) {
                try (DirectoryStream<Path> inside = Files.newDirectoryStream(folder, name)) {
                    inside.forEach(deeper::add);
                } catch (IOException | DirectoryIteratorException unreadable) {
                    continue; // not a readable folder
                }
            }
            found = deeper;
        }
        return found.stream().sorted(Comparator.reverseOrder()).toList();
    }

    /** The handle of a C function. If the library or the function is missing, the handle throws the reason. */
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

    /** Wraps a throwable of a downcall, which throws no checked exceptions. */
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
