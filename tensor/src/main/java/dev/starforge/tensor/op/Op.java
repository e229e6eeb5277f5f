package dev.starforge.tensor.op;

import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.TensorException;

/**
 * One operation, as a value. Every record of the family declares its outputs, what its gradient reads and which inputs it
 * overwrites; a backend answers with one exhaustive switch. What changes from step to step (positions, lengths, tables,
 * the learning rate) is an input tensor, never a component of the record, so that a captured step can be replayed.
 *
 * <p>Inputs are checked here, once, for all backends: {@link #outputs} throws {@link ShapeException} for what the
 * operation does not accept.
 */
public sealed interface Op permits Plain, Routing, Decoding, Training, Fused {
    /** Element types and shapes of the outputs for these inputs. No output shape depends on data. */
    Spec[] outputs(Spec... in);

    /** True for the inputs this operation overwrites. */
    default boolean mutates(int input) {
        return false;
    }

    /** Which tensors the gradient reads when it is wanted for the inputs {@code needs}. The tape keeps these, no others. */
    default Saved saved(Needs needs) {
        return Saved.NOTHING;
    }

    /** Emits the operations that turn output gradients into input gradients, and gives each to {@code b}. */
    default void gradient(Ops ops, Backward b) {
        throw new TensorException(name() + ": has no gradient");
    }

    default String name() {
        return getClass().getSimpleName();
    }

    /** For which inputs a gradient is wanted. */
    interface Needs {
        boolean needs(int input);
    }

    /** Bit masks over inputs and outputs. */
    record Saved(long inputs, long outputs) {
        public static final Saved NOTHING = new Saved(0, 0);
        public static final Saved ALL_INPUTS = new Saved(-1, 0);

        public static Saved in(int... inputs) {
            return NOTHING.andIn(inputs);
        }

        public static Saved out(int... outputs) {
            return NOTHING.andOut(outputs);
        }

        public Saved andIn(int... more) {
            return new Saved(inputs | mask(more), outputs);
        }

        public Saved andOut(int... more) {
            return new Saved(inputs, outputs | mask(more));
        }

        public boolean input(int i) {
            return (inputs >> i & 1) != 0;
        }

        public boolean output(int i) {
            return (outputs >> i & 1) != 0;
        }

        private static long mask(int... bits) {
            long mask = 0;
            for (int bit : bits) {
                mask |= 1L << bit;
            }
            return mask;
        }
    }
}
