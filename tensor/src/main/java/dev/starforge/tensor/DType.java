package dev.starforge.tensor;

import java.util.List;

/**
 * How elements are stored. Arithmetic is float32 whatever the storage; the 16-bit types are for weights and caches, the
 * quantized types for weights alone. Of those a format says which {@link Plane planes} a matrix is stored as, and a format
 * with other parameters is another row here. There are two kinds:
 *
 * <ul>
 *   <li>In a <em>block</em> type so many neighbours of a row share so many bytes, scales among them: one plane of blocks, row
 *       after row. What the bytes mean is told by {@code codec.BlockFormat}. A plain type is a block of one.
 *   <li>A <em>planar</em> type keeps codes, scales and what else there is apart, for the matrix as a whole: a scale may serve
 *       several rows, and a permutation all of them. {@code codec.MatrixCodec} tells what they mean. Codes come first, so that
 *       a quantizer can write as it reads and keep but the scales for later; no plane begins where its elements would not be
 *       aligned, in a matrix that does.
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
    /** {@link #NF4} whose magnitudes are coded in turn, in blocks of 256 over the whole matrix, as in bitsandbytes. */
    NF4_DOUBLE(64, DType::nf4Double),
    /** Signed bytes, a half as scale to each 128 of a row. */
    INT8_128(128, (rows, columns) -> int8(rows, columns, 128)),
    /** Four-bit codes with scales and zero points for each group of inputs, in any order of inputs, as in AutoGPTQ. */
    GPTQ_32(32, (rows, columns) -> gptq(rows, columns, 32)),
    GPTQ_64(64, (rows, columns) -> gptq(rows, columns, 64)),
    GPTQ_128(128, (rows, columns) -> gptq(rows, columns, 128)),
    /** The same with one group to a row, AutoGPTQ's group size -1. */
    GPTQ_CHANNEL(32, (rows, columns) -> gptq(rows, columns, Math.max(1, columns))),
    /** Codes of cached keys and values, whose scales lie apart; and what planes are made of. */
    I8(1, 1),
    /** What planes are made of besides; no tensor that an operation takes. */
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
                new Plane("codes", U8, rows * columns / 2),
                new Plane("nested_absmax", F32, Math.ceilDiv(blocks, 256)),
                new Plane("nested_offset", F32, 1),
                new Plane("absmax", U8, blocks));
    }

    private static List<Plane> int8(long rows, long columns, long group) {
        return List.of(new Plane("codes", I8, rows * columns), new Plane("scales", F16, rows * columns / group));
    }

    private static List<Plane> gptq(long rows, long columns, long group) {
        long groups = rows * Math.ceilDiv(columns, group);
        return List.of(
                new Plane("codes", U8, rows * columns / 2),
                new Plane("g_idx", I32, columns),
                new Plane("scales", F16, groups),
                new Plane("zeros", U8, Math.ceilDiv(groups, 2)));
    }

    /** What a matrix of this type is stored as; its columns are whole blocks. */
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

    /** The bytes of so many elements, which must fill whole blocks. */
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

    /** A quantized type: read by the few operations that say so, written by none. */
    public boolean isQuantized() {
        return blockElements > 1;
    }

    /** A quantized type whose codes and scales lie apart. */
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

    /** The float a 16-bit pattern of this type stands for; exact. */
    public float widen(short bits) {
        return switch (this) {
            case F16 -> Float.float16ToFloat(bits);
            case BF16 -> Float.intBitsToFloat(bits << 16);
            default -> throw new ShapeException("widen: " + this + " is not a 16-bit float");
        };
    }
}
