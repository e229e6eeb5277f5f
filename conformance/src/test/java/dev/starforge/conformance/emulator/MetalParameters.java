package dev.starforge.conformance.emulator;

import dev.starforge.kernels.Variant;
import dev.starforge.tensor.device.DeviceException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The parameters of a kernel, as its source declares them.
 *
 * @param text {@code IN(float, x), ARG(i64, n)}
 * @param kinds a letter for each, as those of the host prelude
 */
record MetalParameters(String text, String kinds) {
    private static final Pattern PARAMETER = Pattern.compile("(IN|OUT|ARG)\\(([\\w ]+), (\\w+)\\)");
    private static final Map<Variant, List<Boolean>> WRITTEN = new ConcurrentHashMap<>();

    static MetalParameters of(Variant variant, String program) {
        String declared = declared(variant, program);
        String text =
                PARAMETER.matcher(declared).results().map(each -> each.group()).collect(Collectors.joining(", "));
        String kinds = PARAMETER
                .matcher(declared)
                .results()
                .map(each -> each.group(1).equals("ARG") ? scalar(each.group(2)) : buffer(variant, each.group(2)))
                .collect(Collectors.joining());
        return new MetalParameters(text, kinds);
    }

    /** Whether a kernel writes each of its parameters. */
    static List<Boolean> written(Variant variant) {
        return WRITTEN.computeIfAbsent(
                variant,
                each -> PARAMETER
                        .matcher(declared(each, each.program("")))
                        .results()
                        .map(parameter -> parameter.group(1).equals("OUT"))
                        .toList());
    }

    private static String declared(Variant variant, String program) {
        Matcher found = Pattern.compile(
                        "^KERNEL\\(" + variant.kernel().symbol() + ",(.*?)\\) \\{$", Pattern.MULTILINE | Pattern.DOTALL)
                .matcher(program);
        if (!found.find()) {
            throw new DeviceException(variant + ": its source has no such kernel");
        }
        return found.group(1);
    }

    private static String scalar(String type) {
        return switch (type) {
            case "int" -> "I";
            case "i64" -> "L";
            case "float" -> "F";
            default -> "S";
        };
    }

    private static String buffer(Variant variant, String type) {
        for (String define : variant.defines()) {
            if (define.startsWith(type + " ")) {
                return buffer(variant, define.substring(type.length() + 1));
            }
        }
        return switch (type) {
            case "D", "W", "X", "Y", "f32", "float" -> "f";
            case "f16" -> "h";
            case "bf16" -> "b";
            case "i32", "int" -> "i";
            case "i8" -> "s";
            case "wide" -> "w";
            default -> "c";
        };
    }
}
