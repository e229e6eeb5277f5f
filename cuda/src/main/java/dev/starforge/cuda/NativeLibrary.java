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
 * A native library that may not be there. Absence is a value with a reason, not a failure to load a class: bindings of
 * a missing library still initialize, and calling one throws the reason.
 */
sealed interface NativeLibrary {
    /** It was loaded under {@code name}. */
    record Found(String name, SymbolLookup symbols) implements NativeLibrary {}

    /** It was not, and {@code reason} says so to people. */
    record Missing(String reason) implements NativeLibrary {}

    /** The first of {@code names} that loads. */
    static NativeLibrary open(String missing, List<String> names) {
        return open(missing, names, NativeLibrary::load);
    }

    /** @param loader gives the symbols of a library, throws {@link IllegalArgumentException} where there is none */
    static NativeLibrary open(String missing, List<String> names, Function<String, SymbolLookup> loader) {
        for (String name : names) {
            try {
                return new Found(name, loader.apply(name));
            } catch (IllegalArgumentException absent) {
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
     * Where libraries of the CUDA toolkit may be: wherever the dynamic linker looks, to which the launcher adds CUDA_HOME and
     * an active Python environment; the toolkit's own folders; and those that NVIDIA's Python packages bring, newest
     * names first.
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

    /** Folders by a pattern of their names, one level after the other. */
    private static List<Path> matching(Path root, String pattern) {
        List<Path> found = List.of(root);
        for (String name : pattern.split("/")) {
            List<Path> deeper = new ArrayList<>();
            for (Path folder : found) {
                try (DirectoryStream<Path> inside = Files.newDirectoryStream(folder, name)) {
                    inside.forEach(deeper::add);
                } catch (IOException | DirectoryIteratorException unreadable) {
                    continue; // nothing to find there
                }
            }
            found = deeper;
        }
        return found.stream().sorted(Comparator.reverseOrder()).toList();
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
