package dev.starforge.tensor;

/**
 * One array of the representation of a weight matrix: quantized values, scales, zero points or a permutation. A format
 * is its planes, see {@link DType#planes}; their bytes, one plane after the other, are what a tensor is written from
 * and read as.
 *
 * @param name what its format calls it
 * @param type of an element
 */
public record Plane(String name, DType type, long elements) {
    public long bytes() {
        return type.bytes(elements);
    }
}
