package dev.starforge.tensor.codec;

import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The tensor types of a GGUF file. A row is cut into blocks of equal size, each with its own scale: 32 weights in the
 * older types, 256 in the K types, which add a second level of scales; a plain float type is a block of one. Decoding
 * gives the very floats that llama.cpp computes, so the order of each multiplication is part of the format. Encoding
 * writes the bytes that llama.cpp writes without an importance matrix, but for codes under a scale of zero, which mean
 * zero whatever they are, and for MXFP4 ties, which go to even here. Blocks are little-endian whatever the buffer's order.
 */
public enum BlockFormat {
    F32(0, 1, 4, FloatCodec.F32),
    F16(1, 1, 2, FloatCodec.F16),
    Q4_0(2, 32, 18, new Q32Codec(4, false)),
    Q4_1(3, 32, 20, new Q32Codec(4, true)),
    Q5_0(6, 32, 22, new Q32Codec(5, false)),
    Q5_1(7, 32, 24, new Q32Codec(5, true)),
    Q8_0(8, 32, 34, new Q8Codec()),
    Q2_K(10, 256, 84, new Q2kCodec()),
    Q3_K(11, 256, 110, new Q3kCodec()),
    Q4_K(12, 256, 144, new Q45kCodec(4)),
    Q5_K(13, 256, 176, new Q45kCodec(5)),
    Q6_K(14, 256, 210, new Q6kCodec()),
    BF16(30, 1, 2, FloatCodec.BF16),
    MXFP4(39, 32, 17, new Mxfp4Codec());

    private final int ggufId;
    private final int blockElements;
    private final int blockBytes;
    private final BlockCodec codec;

    BlockFormat(int ggufId, int blockElements, int blockBytes, BlockCodec codec) {
        this.ggufId = ggufId;
        this.blockElements = blockElements;
        this.blockBytes = blockBytes;
        this.codec = codec;
    }

    /** The number that stands for this type in a GGUF file. */
    public int ggufId() {
        return ggufId;
    }

    public int blockElements() {
        return blockElements;
    }

    public int blockBytes() {
        return blockBytes;
    }

    /** Whether a weight loses bits beyond those of a float type. */
    public boolean isQuantized() {
        return blockElements > 1;
    }

    /** The bytes of so many elements, which must fill whole blocks. */
    public long bytes(long elements) {
        if (elements < 0 || elements % blockElements != 0) {
            throw new TensorException(this + ": " + elements + " elements, expected a multiple of " + blockElements);
        }
        try {
            return Math.multiplyExact(elements / blockElements, (long) blockBytes);
        } catch (ArithmeticException overflow) {
            throw new TensorException(this + ": " + elements + " elements take more bytes than 2^63", overflow);
        }
    }

    /** Decodes {@code count} elements, whole blocks that begin at byte {@code from}. */
    public void decode(ByteBuffer in, int from, float[] out, int at, int count) {
        check("decode", in, from, out, at, count);
        codec.decode(in.duplicate().order(ByteOrder.LITTLE_ENDIAN), from, out, at, count / blockElements);
    }

    /** Encodes {@code count} elements into whole blocks that begin at byte {@code to}; quantized types need finite values. */
    public void encode(float[] in, int at, int count, ByteBuffer out, int to) {
        check("encode", out, to, in, at, count);
        if (isQuantized()) {
            Numbers.requireFinite(this, in, at, count);
        }
        codec.encode(in, at, out.duplicate().order(ByteOrder.LITTLE_ENDIAN), to, count / blockElements);
    }

    private void check(String what, ByteBuffer blocks, int offset, float[] values, int at, int count) {
        long bytes = bytes(count);
        if (offset < 0 || bytes > blocks.limit() - offset || at < 0 || count > values.length - at) {
            throw new TensorException(what + " " + this + ": " + count + " elements at " + at + " of " + values.length
                    + ", " + bytes + " bytes at " + offset + " of " + blocks.limit());
        }
    }
}
