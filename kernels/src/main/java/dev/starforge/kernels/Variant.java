package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * A kernel specialized by macros, mostly for element types, so that no inner loop asks for one. Variants with the same
 * file and macros are one program and are compiled together.
 *
 * @param kernel which one
 * @param defines "NAME value" each, in the order of their names; what has its default is left out
 */
public record Variant(Kernel kernel, List<String> defines) {
    public Variant {
        defines = List.copyOf(defines);
        if (!defines.stream().sorted().toList().equals(defines)) {
            throw new DeviceException(kernel.symbol() + ": macros " + defines + " are not in order");
        }
    }

    /** What {@link #program} depends on, besides the prelude; a name for people and for caches. */
    public String unit() {
        return kernel.file()
                + String.join(
                        "",
                        defines.stream()
                                .map(each -> "-" + each.replace(' ', '='))
                                .toList());
    }

    /** What a compiler is given: how a backend spells the dialect, the macros, what files share, and the file. */
    public String program(String prelude) {
        StringBuilder program = new StringBuilder(prelude);
        defines.forEach(define -> program.append("#define ").append(define).append('\n'));
        for (String file : kernel.files()) {
            program.append("#line 1 \"").append(file).append(".kernel\"\n").append(source(file));
        }
        return program.toString();
    }

    /** The text of one source file. */
    static String source(String file) {
        try (InputStream stream = Variant.class.getResourceAsStream(file + ".kernel")) {
            if (stream == null) {
                throw new DeviceException("kernels: " + file + ".kernel is missing from the module");
            }
            return new String(stream.readAllBytes(), StandardCharsets.US_ASCII);
        } catch (IOException e) {
            throw new DeviceException("kernels: " + file + ".kernel cannot be read", e);
        }
    }

    /** As the dialect calls a storage type. */
    static String spelled(DType type) {
        return switch (type) {
            case F32 -> "f32";
            case F16 -> "f16";
            case BF16 -> "bf16";
            case I32 -> "i32";
            case I8 -> "i8";
            default -> throw new DeviceException("kernels: none reads or writes " + type);
        };
    }

    @Override
    public String toString() {
        return kernel.symbol() + (defines.isEmpty() ? "" : defines.toString());
    }
}
