package dev.starforge.train.verify;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Routing;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.function.BiFunction;

/**
 * Records the expert routing of one run and replays it in another. In 16 bits, a token whose two best experts are nearly
 * tied may be routed to the other one, which changes its logits. Replaying compares the arithmetic with the same experts,
 * and counts how often the routing would differ.
 */
final class ExpertRouting {
    private final Device device;
    private final Deque<int[]> chosen = new ArrayDeque<>();
    private int rows;
    private int rerouted;

    ExpertRouting(Device device) {
        this.device = device;
    }

    /** Records the chosen experts. */
    Ops recording(Ops ops) {
        return new RoutedOps(ops, (best, choices) -> chosen.add(choices));
    }

    /** Replays the recorded experts. */
    Ops replaying(Ops ops) {
        return new RoutedOps(ops, (best, choices) -> {
            int[] noted = chosen.remove();
            int k = Math.toIntExact(best.dim(1));
            for (int at = 0; at < noted.length; at += k) {
                rows++;
                rerouted += Arrays.equals(noted, at, at + k, choices, at, at + k) ? 0 : 1;
            }
            device.write(best, noted);
        });
    }

    /** Share of tokens and layers that would have used other experts. */
    double rerouted() {
        return rows == 0 ? 0 : (double) rerouted / rows;
    }

    private interface OnRoute {
        void chosen(Tensor best, int[] choices);
    }

    private final class RoutedOps implements Ops {
        private final Ops ops;
        private final OnRoute onRoute;

        RoutedOps(Ops ops, OnRoute onRoute) {
            this.ops = ops;
            this.onRoute = onRoute;
        }

        @Override
        public Tensor[] runAll(Op op, Tensor... in) {
            Tensor[] out = ops.runAll(op, in);
            if (op instanceof Routing.Route) {
                onRoute.chosen(out[0], device.ints(out[0]));
            }
            return out;
        }

        @Override
        public Tensor reshape(Tensor x, Shape shape) {
            return ops.reshape(x, shape);
        }

        @Override
        public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
            return ops.block(x, (inner, y) -> body.apply(new RoutedOps(inner, onRoute), y));
        }

        @Override
        public Scope scope() {
            return ops.scope();
        }

        @Override
        public Ops shapesOnly() {
            return ops.shapesOnly();
        }

        @Override
        public Precision precision() {
            return ops.precision();
        }
    }
}
