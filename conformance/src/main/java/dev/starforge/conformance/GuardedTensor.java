package dev.starforge.conformance;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;

/**
 * A tensor in the middle of a larger allocation. The surrounding bits are all ones, NaN in every float type and -1 as a row number: a
 * write outside the tensor changes them, and a read outside of it makes results NaN. Outputs are filled with a NaN that no arithmetic
 * produces, which detects unwritten elements.
 */
final class GuardedTensor {
    /** Elements on either side; at 4 bytes each, the alignment of an allocation. */
    private static final int GUARD = 64;

    private static final byte ALL_ONES = -1;
    private static final int UNWRITTEN = 0x7fc5a5a5;
    private static final int UNWRITTEN_16 = 0x7fe5;

    private final Scope scope;
    private final String name;
    private final Spec spec;
    private final Tensor whole;
    private final int offset;
    private final HostTensor image;

    private GuardedTensor(Scope scope, String name, Spec spec, int shift) {
        this.scope = scope;
        this.name = name;
        this.spec = spec;
        Spec around = spec.dtype().isQuantized() ? matrices(spec, shift) : elements(spec, shift);
        offset = spec.dtype().isQuantized() ? (1 + shift) * matrix(spec) : 2 * GUARD + shift;
        whole = scope.allocate(around);
        image = new HostTensor(around);
        image.fill(ALL_ONES);
    }

    private static Spec elements(Spec spec, int shift) {
        return new Spec(spec.dtype(), Shape.of(3 * GUARD + shift + spec.shape().size()));
    }

    /** The guards of quantized tensors are whole matrices. */
    private static Spec matrices(Spec spec, int shift) {
        Shape shape = spec.shape();
        long inside = matrix(spec) == 0 ? 0 : shape.size() / matrix(spec);
        return new Spec(spec.dtype(), Shape.of(2 + shift + inside, shape.dim(-2), shape.last()));
    }

    private static int matrix(Spec spec) {
        return Math.toIntExact(spec.shape().dim(-2) * spec.shape().last());
    }

    /** A tensor that holds {@code value}, {@code shift} elements off an allocation's alignment. */
    static GuardedTensor input(Scope scope, String name, HostTensor value, int shift) {
        GuardedTensor guarded = new GuardedTensor(scope, name, value.spec(), shift);
        guarded.image.put(guarded.offset, value);
        guarded.restore();
        return guarded;
    }

    /** An unwritten output tensor, {@code shift} elements off an allocation's alignment. */
    static GuardedTensor output(Scope scope, String name, Spec spec, int shift) {
        GuardedTensor guarded = new GuardedTensor(scope, name, spec, shift);
        for (int i = 0; i < spec.shape().size(); i++) {
            guarded.image.bits(guarded.offset + i, unwritten(spec));
        }
        guarded.restore();
        return guarded;
    }

    private static int unwritten(Spec spec) {
        return spec.dtype().bytes() == 4 ? UNWRITTEN : UNWRITTEN_16;
    }

    Tensor tensor() {
        return whole.view(offset, spec.shape());
    }

    /** Restores the initial contents of the tensor and its guards. */
    void restore() {
        scope.device().write(whole, image.bytes());
    }

    /** Reads the tensor. Fails if its guards were changed. */
    HostTensor read() {
        HostTensor now = OpRunner.download(Device.of(scope), whole);
        int size = Math.toIntExact(spec.shape().size());
        int before = now.firstDifference(image, 0, offset);
        int changed = before >= 0 ? before : now.firstDifference(image, offset + size, now.size());
        if (changed >= 0) {
            throw new ConformanceFailure(
                    name + " " + spec + ": element " + (changed - offset) + ", outside of it, was overwritten");
        }
        return now.slice(offset, spec);
    }

    /** Reads an output like {@link #read}. Fails if an element was not written. */
    HostTensor written() {
        HostTensor now = read();
        for (int i = 0; i < now.size(); i++) {
            if (now.bits(i) == unwritten(spec)) {
                throw new ConformanceFailure(name + " " + spec + ": element " + i + " was not written");
            }
        }
        return now;
    }

    /** Reads an input like {@link #read}. Fails if the operation changed it. */
    void unchanged() {
        HostTensor now = read();
        int at = now.firstDifference(image.slice(offset, spec));
        if (at >= 0) {
            throw new ConformanceFailure(name + " " + spec + ": element " + at + " was changed to " + now.at(at)
                    + ", though the operation does not overwrite it");
        }
    }
}
