package dev.starforge.kernels;

import dev.starforge.kernels.Launch.Argument;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.DeviceException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A kernel's parameters, parsed from its source: {@code IN(X, x), IN(float, w), OUT(X, y), ARG(i64, n)}. A type that is a capital letter
 * is a macro, which the type of the argument defines.
 */
record Signature(Kernel kernel, List<Parameter> parameters, boolean dependentLaunch) {
    private static final Set<String> MACROS = Set.of("D", "W", "X", "Y");
    private static final Pattern PARAMETER = Pattern.compile("(IN|OUT|ARG)\\(([\\w ]+), (\\w+)\\)");
    private static final Map<Kernel, Signature> READ = new ConcurrentHashMap<>();

    record Parameter(boolean written, String type, String name) {}

    Signature {
        parameters = List.copyOf(parameters);
    }

    static Signature of(Kernel kernel) {
        return READ.computeIfAbsent(kernel, Signature::read);
    }

    private static Signature read(Kernel kernel) {
        Pattern definition =
                Pattern.compile("(?s)^KERNEL\\(" + kernel.symbol() + ",\\s+(.*?)\\) \\{$", Pattern.MULTILINE);
        String source = Variant.source(kernel.file());
        Matcher found = definition.matcher(source);
        if (!found.find()) {
            throw new DeviceException(kernel.file() + ".kernel: no kernel " + kernel.symbol());
        }
        String body = source.substring(found.end(), source.indexOf("\n}\n", found.end()));
        return new Signature(
                kernel,
                PARAMETER
                        .matcher(found.group(1))
                        .results()
                        .map(each -> new Parameter(each.group(1).equals("OUT"), each.group(2), each.group(3)))
                        .toList(),
                body.contains("DEPENDENT_LAUNCH();") || body.contains("GRID_DEPENDENCY_WAIT();"));
    }

    /** The variant for these arguments. */
    Variant variant(List<Argument> arguments) {
        return variant(arguments, List.of());
    }

    /** The variant for these arguments, with additional macros. */
    Variant variant(List<Argument> arguments, List<String> defines) {
        if (arguments.size() != parameters.size()) {
            throw new DeviceException(
                    kernel.symbol() + ": " + arguments.size() + " arguments for parameters " + names());
        }
        Map<String, DType> types = new TreeMap<>();
        for (int i = 0; i < arguments.size(); i++) {
            Parameter parameter = parameters.get(i);
            Optional<DType> given = dtype(arguments.get(i));
            if (given.isPresent() && MACROS.contains(parameter.type)) {
                DType type = given.get();
                DType other = types.put(parameter.type, type);
                if (other != null && other != type) {
                    throw new DeviceException(kernel.symbol() + ": " + parameter.name + " is " + type + ", expected "
                            + other + " as the other buffers of type " + parameter.type);
                }
            }
        }
        types.values().removeIf(type -> type == DType.F32);
        return new Variant(
                kernel,
                Stream.concat(
                                defines.stream(),
                                types.entrySet().stream()
                                        .map(each -> each.getKey() + " " + Variant.typeName(each.getValue())))
                        .sorted()
                        .toList());
    }

    private static Optional<DType> dtype(Argument argument) {
        return switch (argument) {
            case Argument.Buffer buffer -> Optional.of(buffer.tensor().dtype());
            case Argument.Absent none -> Optional.of(none.dtype());
            case Argument.Workspace _, Argument.Int _, Argument.Long _, Argument.Float _, Argument.Struct _ ->
                Optional.empty();
        };
    }

    private List<String> names() {
        return parameters.stream().map(Parameter::name).toList();
    }
}
