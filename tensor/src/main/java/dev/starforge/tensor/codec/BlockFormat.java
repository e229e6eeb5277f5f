package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Block formats of weights: the tensor types of GGUF files, and {@link Nf4} in blocks. A row is divided into blocks of
 * equal size, each with its own scale: 32 weights in the older types, 256 in the K-quants, which have a second level of
 * scales; a plain float type has blocks of one element. A new type needs a constant here, one in {@link DType}, and a
 * codec. Decoding is bit-equal to llama.cpp, so the order of the multiplications is part of the format. Encoding writes
 * the bytes that llama.cpp writes without an importance matrix, but for quants under a scale of zero, which mean zero
 * whatever they are, and for MXFP4 ties, which go to even here. Blocks are little-endian whatever the buffer's order.
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

    /** Returns the format of a weight type. Throws for integer types. */
    public static BlockFormat of(DType dtype) {
        for (BlockFormat format : values()) {
            if (format.dtype == dtype) {
                return format;
            }
        }
        throw new TensorException(dtype + ": is not a weight type");
    }

    /** Returns the type of a tensor of these blocks. */
    public DType dtype() {
        return dtype;
    }

    /** Returns true if GGUF has this type. */
    public boolean isInGguf() {
        return ggufId != NOT_IN_GGUF;
    }

    /** Returns the type id in GGUF files. */
    public int ggufId() {
        if (!isInGguf()) {
            throw new TensorException(this + ": GGUF has no such type");
        }
        return ggufId;
    }

    public int blockElements() {
        return dtype.blockElements();
    }

    public int blockBytes() {
        return dtype.blockBytes();
    }

    /** Returns true for quantized types, false for float types. */
    public boolean isQuantized() {
        return dtype.isQuantized();
    }

    /** Returns the size in bytes of {@code elements} elements, which must fill whole blocks. */
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

    /** Returns true if an importance matrix changes what is encoded. */
    public boolean usesImportance() {
        return codec instanceof WeightedBlockCodec;
    }

    /**
     * Encodes a row so that the sum of the squared errors, each times the importance of its column, is small. Writes the bytes
     * that llama.cpp writes with the same importance.
     *
     * @param importance a number of at least 0 for each column of the row
     */
    public void encodeRow(float[] in, int at, float[] importance, ByteBuffer out, int to) {
        check("encode", out, to, in, at, importance.length);
        CodecMath.requireFinite(this, in, at, importance.length);
        CodecMath.requireFinite(this, importance, 0, importance.length);
        if (!(codec instanceof WeightedBlockCodec weighted)) {
            throw new TensorException("encode " + this + ": this type does not use an importance matrix");
        }
        weighted.encode(in, at, importance, out.duplicate().order(ByteOrder.LITTLE_ENDIAN), to);
    }

    /** Throws if a block has an infinite or NaN scale. */
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
