package dev.starforge.model.file;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Shape;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Optional;

/**
 * Safetensors whose projections a quantizer has replaced by several tensors each: codes, scales and what else its format has.
 * Seen from here they are weights again, under HF's names and with their shapes, stored in a quantized type; everything else
 * is as in any file.
 */
public abstract sealed class PrequantizedSource implements WeightSource permits BitsAndBytesSource, GptqSource {
    final Safetensors file;
    private final WeightSource plain;

    PrequantizedSource(Safetensors file) {
        this.file = file;
        this.plain = WeightSource.of(file);
    }

    /** As {@code config.json} says, in the section {@code quantization_config}. */
    public static PrequantizedSource open(Safetensors file, JsonConfig quantization) {
        return switch (quantization.string("quant_method")) {
            case "gptq" -> GptqSource.of(file, quantization);
            case "bitsandbytes" -> BitsAndBytesSource.of(file, quantization);
            default -> throw quantization.invalid("quant_method", "gptq or bitsandbytes");
        };
    }

    /** Whether a weight is stored as several tensors. */
    abstract boolean isPacked(String name);

    /** The weight that a tensor of the file belongs to: of most tensors they themselves. */
    public abstract String weightOf(String tensor);

    abstract Shape packedShape(String name);

    /** The type that a packed weight can be kept in; empty where it must be decoded. */
    abstract Optional<DType> packedType(String name);

    abstract void readPacked(String name, long first, float[] out, int count);

    @Override
    public final Path path() {
        return file.path();
    }

    @Override
    public final Shape shape(String name) {
        return isPacked(name) ? packedShape(name) : plain.shape(name);
    }

    @Override
    public final Optional<DType> storedType(String name) {
        return isPacked(name) ? packedType(name) : plain.storedType(name);
    }

    @Override
    public void readRows(String name, long first, ByteBuffer into) {
        if (isPacked(name)) {
            throw new ModelException(path(), "tensor " + name + " is not stored in rows");
        }
        plain.readRows(name, first, into);
    }

    @Override
    public final Optional<FileRegion> region(String name) {
        return isPacked(name) ? Optional.empty() : plain.region(name);
    }

    @Override
    public final void read(String name, long first, float[] out, int count) {
        if (isPacked(name)) {
            readPacked(name, first, out, count);
        } else {
            plain.read(name, first, out, count);
        }
    }
}
