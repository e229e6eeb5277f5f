package dev.starforge.tensor.op;

import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;

/** How the second operand broadcasts to the first: same shape, one row for all rows, or one value for each row. */
public enum Broadcast {
    SAME,
    ROW,
    COLUMN;

    /** Returns how {@code b} broadcasts to {@code a}; throws a {@link ShapeException} for {@code op} if it does not. */
    public static Broadcast of(Op op, Shape a, Shape b) {
        if (a.equals(b)) {
            return SAME;
        }
        if (b.rank() > 0 && a.endsWith(b)) {
            return ROW;
        }
        if (a.rank() > 0 && b.equals(a.withLast(1))) {
            return COLUMN;
        }
        throw new ShapeException(op.name() + ": " + b + " does not broadcast to " + a
                + "; expected the same shape, its trailing dimensions, or its last dimension as 1");
    }

    /** Sums the gradient of the broadcast result back to {@code b}'s shape. */
    Tensor fold(Ops ops, Tensor d, Shape b) {
        return switch (this) {
            case SAME -> d;
            case COLUMN -> ops.run(new Plain.Sum(Plain.Sum.Over.LAST), d);
            case ROW -> {
                long lead = 1;
                for (int axis = 0; axis < d.shape().rank() - b.rank(); axis++) {
                    lead *= d.dim(axis);
                }
                Tensor flat = ops.reshape(d, Shape.of(lead, b.size()));
                yield ops.reshape(ops.run(new Plain.Sum(Plain.Sum.Over.LEADING), flat), b);
            }
        };
    }
}
