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
 * Safetensors of a quantized model, in which several tensors (quantized values, scales, zero points) replace the weight
 * of each projection. This source presents them as one weight of a quantized type, with HF's name and shape. Other
 * tensors are read as usual.
 */
public abstract sealed class PrequantizedSource implements WeightSource permits BitsAndBytesSource, GptqSource {
    final Safetensors file;
    private final WeightSource plain;

    PrequantizedSource(Safetensors file) {
        this.file = file;
        this.plain = WeightSource.of(file);
    }

    /** Opens a source for the {@code quantization_config} of {@code config.json}. */
    public static PrequantizedSource open(Safetensors file, JsonConfig quantization) {
        return switch (quantization.string("quant_method")) {
            case "gptq" -> GptqSource.of(file, quantization);
            case "bitsandbytes" -> BitsAndBytesSource.of(file, quantization);
            default -> throw quantization.invalid("quant_method", "gptq or bitsandbytes");
        };
    }

    /** Returns true if a weight is stored as several tensors. */
    abstract boolean isPacked(String name);

    /** Returns the weight that a tensor of the file belongs to: its own name unless it is part of a packed weight. */
    public abstract String weightOf(String tensor);

    abstract Shape packedShape(String name);

    /** Returns the type that a packed weight can keep in memory; empty if it must be dequantized. */
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
