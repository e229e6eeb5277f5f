package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * A kernel specialized by macros, mostly for element types, so that inner loops do not branch on them. Variants of the same file and
 * macros are one program and are compiled together.
 *
 * @param kernel the kernel
 * @param defines "NAME value" each, sorted; defaults are left out
 */
public record Variant(Kernel kernel, List<String> defines) {
    public Variant {
        defines = List.copyOf(defines);
        if (!defines.stream().sorted().toList().equals(defines)) {
            throw new DeviceException(kernel.symbol() + ": macros " + defines + " are not in order");
        }
    }

    /** A readable name for everything that {@link #program} depends on besides the prelude; cache entries begin with it. */
    public String unitName() {
        return kernel.file()
                + String.join(
                        "",
                        defines.stream()
                                .map(each -> "-" + each.replace(' ', '='))
                                .toList());
    }

    /** The source that is compiled: prelude, macros, shared files, kernel file. */
    public String program(String prelude) {
        StringBuilder program = new StringBuilder(prelude);
        defines.forEach(define -> program.append("#define ").append(define).append('\n'));
        for (String file : kernel.files()) {
            program.append("#line 1 \"").append(file).append(".kernel\"\n").append(source(file));
        }
        return program.toString();
    }

    /** The contents of one source file. */
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

    /** The dialect's name of a storage type. */
    static String typeName(DType type) {
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
