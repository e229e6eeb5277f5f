package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * What the blocks of weights mean: the tensor types of a GGUF file, and {@link Nf4} cut into blocks. A row is cut into blocks
 * of equal size, each with its own scale: 32 weights in the older types, 256 in the K types, which add a second level of
 * scales; a plain float type is a block of one. A new type is a row here, one of {@link DType}, and its codec. Decoding
 * gives the very floats that llama.cpp computes, so the order of each multiplication is part of the format. Encoding
 * writes the bytes that llama.cpp writes without an importance matrix, but for codes under a scale of zero, which mean
 * zero whatever they are, and for MXFP4 ties, which go to even here. Blocks are little-endian whatever the buffer's order.
 */
public enum BlockFormat {
    F32(DType.F32, 0, FloatCodec.F32, BlockScales.NONE),
    F16(DType.F16, 1, FloatCodec.F16, BlockScales.NONE),
    Q4_0(DType.Q4_0, 2, new Q4Q5Codec(4, false), BlockScales.f16(0, 1)),
    Q4_1(DType.Q4_1, 3, new Q4Q5Codec(4, true), BlockScales.f16(0, 2)),
    Q5_0(DType.Q5_0, 6, new Q4Q5Codec(5, false), BlockScales.f16(0, 1)),
    Q5_1(DType.Q5_1, 7, new Q4Q5Codec(5, true), BlockScales.f16(0, 2)),
    Q8_0(DType.Q8_0, 8, new Q8Codec(), BlockScales.f16(0, 1)),
    Q2_K(DType.Q2_K, 10, new Q2kCodec(), BlockScales.f16(80, 2)),
    Q3_K(DType.Q3_K, 11, new Q3kCodec(), BlockScales.f16(108, 1)),
    Q4_K(DType.Q4_K, 12, new Q4kQ5kCodec(4), BlockScales.f16(0, 2)),
    Q5_K(DType.Q5_K, 13, new Q4kQ5kCodec(5), BlockScales.f16(0, 2)),
    Q6_K(DType.Q6_K, 14, new Q6kCodec(), BlockScales.f16(208, 1)),
    BF16(DType.BF16, 30, FloatCodec.BF16, BlockScales.NONE),
    MXFP4(DType.MXFP4, 39, new Mxfp4Codec(), BlockScales.NONE),
    NF4(DType.NF4, BlockFormat.NOT_IN_GGUF, new Nf4Codec(), BlockScales.f32(0));

    private static final int NOT_IN_GGUF = -1;

    private final DType dtype;
    private final int ggufId;
    private final BlockCodec codec;
    private final BlockScales scales;

    BlockFormat(DType dtype, int ggufId, BlockCodec codec, BlockScales scales) {
        this.dtype = dtype;
        this.ggufId = ggufId;
        this.codec = codec;
        this.scales = scales;
    }

    /** The format of a tensor type; row numbers have none. */
    public static BlockFormat of(DType dtype) {
        for (BlockFormat format : values()) {
            if (format.dtype == dtype) {
                return format;
            }
        }
        throw new TensorException(dtype + ": is no type of weights");
    }

    /** The type a tensor of such blocks has. */
    public DType dtype() {
        return dtype;
    }

    /** Whether a GGUF file can hold it. */
    public boolean isInGguf() {
        return ggufId != NOT_IN_GGUF;
    }

    /** The type number in a GGUF file. */
    public int ggufId() {
        if (!isInGguf()) {
            throw new TensorException(this + ": a GGUF file has no such type");
        }
        return ggufId;
    }

    public int blockElements() {
        return dtype.blockElements();
    }

    public int blockBytes() {
        return dtype.blockBytes();
    }

    /** Whether a weight loses bits beyond those of a float type. */
    public boolean isQuantized() {
        return dtype.isQuantized();
    }

    /** The size in bytes of this number of elements, which must fill whole blocks. */
    public long bytes(long elements) {
        return dtype.bytes(elements);
    }

    /** Decodes {@code count} elements, whole blocks that begin at byte {@code from}. */
    public void decode(ByteBuffer in, int from, float[] out, int at, int count) {
        check("decode", in, from, out, at, count);
        codec.decode(in.duplicate().order(ByteOrder.LITTLE_ENDIAN), from, out, at, count / dtype.blockElements());
    }

    /** Encodes {@code count} elements into whole blocks that begin at byte {@code to}; quantized types need finite values. */
    public void encode(float[] in, int at, int count, ByteBuffer out, int to) {
        check("encode", out, to, in, at, count);
        if (isQuantized()) {
            CodecMath.requireFinite(this, in, at, count);
        }
        codec.encode(in, at, out.duplicate().order(ByteOrder.LITTLE_ENDIAN), to, count / dtype.blockElements());
    }

    /** Throws if one of these blocks has a scale that is infinite or not a number. */
    public void requireFiniteScales(ByteBuffer blocks) {
        scales.requireFinite(dtype, blocks.slice().order(ByteOrder.LITTLE_ENDIAN));
    }

    private void check(String what, ByteBuffer blocks, int offset, float[] values, int at, int count) {
        long bytes = bytes(count);
        if (offset < 0 || bytes > blocks.limit() - offset || at < 0 || count > values.length - at) {
            throw new TensorException(what + " " + this + ": " + count + " elements at " + at + " of " + values.length
                    + ", " + bytes + " bytes at " + offset + " of " + blocks.limit());
        }
    }
}
