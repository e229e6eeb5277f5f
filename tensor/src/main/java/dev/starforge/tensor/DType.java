package dev.starforge.tensor;

import java.util.List;

/**
 * Element types. Arithmetic is float32 for all of them; the 16-bit types are for weights, activations and caches, the quantized types for
 * weights only. A matrix of a quantized type is stored as one or more {@link Plane planes}. There are two kinds of quantized types:
 *
 * <ul>
 *   <li>A <em>block</em> type stores a fixed number of consecutive elements of a row, with their scales, in a fixed number of
 *       bytes, as ggml does: one plane of blocks, row by row. {@code codec.BlockFormat} decodes them. A plain type is a block
 *       of one element.
 *   <li>A <em>planar</em> type stores quantized values, scales, zero points and permutation in separate planes of the whole
 *       matrix. {@code codec.MatrixCodec} decodes them. The values come first, so that a quantizer can stream them and write
 *       the scales at the end. Each plane is aligned to its elements if the matrix is.
 * </ul>
 */
public enum DType {
    F32(1, 4),
    F16(1, 2),
    BF16(1, 2),
    I32(1, 4),
    Q4_0(32, 18),
    Q4_1(32, 20),
    Q5_0(32, 22),
    Q5_1(32, 24),
    Q8_0(32, 34),
    Q2_K(256, 84),
    Q3_K(256, 110),
    Q4_K(256, 144),
    Q5_K(256, 176),
    Q6_K(256, 210),
    MXFP4(32, 17),
    NF4(64, 36),
    /** {@link #NF4} with double quantization: absmax is quantized in blocks of 256 over the whole matrix, as in bitsandbytes. */
    NF4_DOUBLE(64, DType::nf4Double),
    /** Signed bytes with an f16 scale for each 128 elements of a row. */
    INT8_128(128, (rows, columns) -> int8(rows, columns, 128)),
    /** Four-bit values with a scale and a zero point for each group of inputs, in any order of inputs (act-order), as in AutoGPTQ. */
    GPTQ_32(32, (rows, columns) -> gptq(rows, columns, 32)),
    GPTQ_64(64, (rows, columns) -> gptq(rows, columns, 64)),
    GPTQ_128(128, (rows, columns) -> gptq(rows, columns, 128)),
    /** {@link #GPTQ_32} with one group per row, AutoGPTQ's group size -1. */
    GPTQ_CHANNEL(32, (rows, columns) -> gptq(rows, columns, Math.max(1, columns))),
    /** Values of an int8 KV cache, whose scales are a separate tensor; and an element type of planes. */
    I8(1, 1),
    /** An element type of planes. Operations do not take such tensors. */
    U8(1, 1);

    private interface PlaneLayout {
        List<Plane> planes(long rows, long columns);
    }

    private final int blockElements;
    private final int blockBytes; // none in a planar type
    private final PlaneLayout layout;

    DType(int blockElements, int blockBytes) {
        this.blockElements = blockElements;
        this.blockBytes = blockBytes;
        layout = this::one;
    }

    DType(int blockElements, PlaneLayout layout) {
        this.blockElements = blockElements;
        this.blockBytes = 0;
        this.layout = layout;
    }

    private List<Plane> one(long rows, long columns) {
        return isQuantized()
                ? List.of(new Plane("blocks", U8, bytes(rows * columns)))
                : List.of(new Plane("elements", this, rows * columns));
    }

    private static List<Plane> nf4Double(long rows, long columns) {
        long blocks = rows * columns / 64;
        return List.of(
                new Plane("quants", U8, rows * columns / 2),
                new Plane("nested_absmax", F32, Math.ceilDiv(blocks, 256)),
                new Plane("nested_offset", F32, 1),
                new Plane("absmax", U8, blocks));
    }

    private static List<Plane> int8(long rows, long columns, long group) {
        return List.of(new Plane("quants", I8, rows * columns), new Plane("scales", F16, rows * columns / group));
    }

    private static List<Plane> gptq(long rows, long columns, long group) {
        long groups = rows * Math.ceilDiv(columns, group);
        return List.of(
                new Plane("quants", U8, rows * columns / 2),
                new Plane("g_idx", I32, columns),
                new Plane("scales", F16, groups),
                new Plane("zeros", U8, Math.ceilDiv(groups, 2)));
    }

    /** The planes of a matrix of this type, whose columns are whole blocks. */
    public List<Plane> planes(long rows, long columns) {
        if (rows < 0 || columns < 0 || columns % blockElements != 0) {
            throw new ShapeException(this + ": planes of " + rows + " x " + columns
                    + ", expected columns in multiples of " + blockElements);
        }
        return layout.planes(rows, columns);
    }

    /** Elements of a row that go together: a block, or in a planar type what a row must be a multiple of. */
    public int blockElements() {
        return blockElements;
    }

    /** The bytes of a block; the elements of a planar type have no bytes together. */
    public int blockBytes() {
        if (isPlanar()) {
            throw new ShapeException("bytes: " + this + " is stored in planes, whose bytes follow from a matrix");
        }
        return blockBytes;
    }

    /** The bytes of one element; a quantized element has none of its own. */
    public int bytes() {
        if (isQuantized()) {
            throw new ShapeException("bytes: one element of " + this + " has none of its own");
        }
        return blockBytes;
    }

    /** The size in bytes of this number of elements, which must fill whole blocks. */
    public long bytes(long elements) {
        if (elements < 0 || elements % blockElements != 0) {
            throw new ShapeException(this + ": " + elements + " elements, expected a multiple of " + blockElements);
        }
        try {
            return Math.multiplyExact(elements / blockElements, (long) blockBytes());
        } catch (ArithmeticException overflow) {
            throw new ShapeException(this + ": " + elements + " elements take more bytes than 2^63");
        }
    }

    /** A plain float type: what an operation can write, and a cache can hold. */
    public boolean isFloat() {
        return this == F32 || this == F16 || this == BF16;
    }

    /** Returns true for a quantized type. Only some operations read quantized tensors; no operation writes them. */
    public boolean isQuantized() {
        return blockElements > 1;
    }

    /** Returns true for a quantized type with separate planes for quantized values and scales. */
    public boolean isPlanar() {
        return blockBytes == 0;
    }

    /** A type that weights may have. */
    public boolean isWeight() {
        return isFloat() || isQuantized();
    }

    /** The 16-bit pattern of a float in this type, rounded to nearest even. */
    public short narrow(float value) {
        return switch (this) {
            case F16 -> Float.floatToFloat16(value);
            case BF16 -> {
                int bits = Float.floatToRawIntBits(value);
                boolean nan = Float.isNaN(value);
                yield (short) (nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
            }
            default -> throw new ShapeException("narrow: " + this + " is not a 16-bit float");
        };
    }

    /** Converts 16 bits of this type to float; exact. */
    public float widen(short bits) {
        return switch (this) {
            case F16 -> Float.float16ToFloat(bits);
            case BF16 -> Float.intBitsToFloat(bits << 16);
            default -> throw new ShapeException("widen: " + this + " is not a 16-bit float");
        };
    }
}
