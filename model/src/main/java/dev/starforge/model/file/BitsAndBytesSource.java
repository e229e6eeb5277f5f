package dev.starforge.model.file;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.Nf4;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * NF4 weights as {@link BitsAndBytes} writes them. Weights with the default block sizes and code map stay quantized;
 * others are dequantized.
 */
final class BitsAndBytesSource extends PrequantizedSource {
    private static final int BLOCK = Nf4.DEFAULT_BLOCK;
    private static final int PIECE = 1 << 20;

    private String heldName = "";
    private Nf4 held = Nf4.encode(new float[0], BLOCK);

    private BitsAndBytesSource(Safetensors file) {
        super(file);
    }

    static BitsAndBytesSource of(Safetensors file, JsonConfig quantization) {
        if (!quantization.bool("load_in_4bit", false)) {
            throw quantization.invalid("load_in_4bit", "true: NF4 is the only supported bitsandbytes format");
        }
        if (!quantization.string("bnb_4bit_quant_type", "fp4").equals("nf4")) {
            throw quantization.invalid("bnb_4bit_quant_type", "nf4");
        }
        return new BitsAndBytesSource(file);
    }

    @Override
    boolean isPacked(String name) {
        return BitsAndBytes.has(file, name);
    }

    @Override
    public String weightOf(String tensor) {
        return BitsAndBytes.PARTS.stream()
                .filter(tensor::endsWith)
                .map(part -> tensor.substring(0, tensor.length() - part.length()))
                .filter(this::isPacked)
                .findFirst()
                .orElse(tensor);
    }

    @Override
    Shape packedShape(String name) {
        return BitsAndBytes.layout(file, name).shape();
    }

    @Override
    Optional<DType> packedType(String name) {
        BitsAndBytes.Nf4Layout layout = BitsAndBytes.layout(file, name);
        boolean whole = layout.block() == BLOCK && layout.shape().last() % BLOCK == 0;
        boolean nested = layout.nestedBlock() == Nf4.NESTED_BLOCK && layout.hasOurMap();
        return !whole
                ? Optional.empty()
                : layout.isNested() ? Optional.of(DType.NF4_DOUBLE).filter(type -> nested) : Optional.of(DType.NF4);
    }

    /** Reads blocks of NF4: an absmax value followed by the quantized values of the block. */
    @Override
    public void readRows(String name, long first, ByteBuffer into) {
        if (!isPacked(name)) {
            super.readRows(name, first, into);
            return;
        }
        int blocks = into.remaining() / DType.NF4.blockBytes();
        long from = first * packedShape(name).last() / BLOCK;
        ByteBuffer quants = ByteBuffer.allocate(blocks * BLOCK / 2);
        ByteBuffer absmax = ByteBuffer.allocate(blocks * Float.BYTES);
        file.read(file.tensor(name), from * BLOCK / 2, quants);
        file.read(file.tensor(name + ".absmax"), from * Float.BYTES, absmax);
        for (int b = 0; b < blocks; b++) {
            into.put(absmax.slice(b * Float.BYTES, Float.BYTES)).put(quants.slice(b * BLOCK / 2, BLOCK / 2));
        }
    }

    /** Passes on the bytes of the file unchanged. */
    @Override
    public void readPlanes(String name, Consumer<ByteBuffer> piece) {
        SafetensorsFile.SafetensorsTensor quants = file.tensor(name);
        for (long at = 0; at < quants.bytes(); at += PIECE) {
            ByteBuffer part = ByteBuffer.allocate((int) Math.min(PIECE, quants.bytes() - at));
            file.read(quants, at, part);
            piece.accept(part.flip());
        }
        float[] nested = file.floats(name + ".nested_absmax");
        ByteBuffer units =
                ByteBuffer.allocate(Float.BYTES * (nested.length + 1)).order(ByteOrder.LITTLE_ENDIAN);
        for (float unit : nested) {
            if (!Float.isFinite(unit)) {
                throw new ModelException(path(), "tensor " + name + ".nested_absmax: has the value " + unit);
            }
            units.putFloat(unit);
        }
        units.putFloat(BitsAndBytes.layout(file, name).offset());
        piece.accept(units.flip());
        piece.accept(file.bytes(name + ".absmax", "U8"));
    }

    @Override
    synchronized void readPacked(String name, long first, float[] out, int count) {
        if (!heldName.equals(name)) {
            held = BitsAndBytes.read(file, name).quants();
            heldName = name;
        }
        held.decode(Math.toIntExact(first), count, out, 0);
    }
}
