package dev.starforge.tensor.op;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Storage;
import dev.starforge.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.function.BiFunction;

/**
 * The plan of activation checkpointing for one block. A dry run with shapes only, under a tape, records which tensors
 * gradients read. From this follows which results are kept, which operations are recomputed, and which are skipped because
 * no gradient reads their result (for example the last product of a transformer block). The block then runs twice, with
 * {@link #keeping} and with {@link #again}, in the same order.
 */
final class Recomputation {
    private enum Step {
        KEEP,
        RUN,
        SKIP
    }

    /** The inputs and outputs of one operation by their storage, so that views count as the viewed tensor. */
    private record Ran(Op op, List<Storage> in, List<Storage> out) {}

    private final List<Ran> ran;
    private final List<Step> steps;
    private final List<Tensor[]> kept = new ArrayList<>();

    private Recomputation(List<Ran> ran, List<Step> steps) {
        this.ran = ran;
        this.steps = steps;
    }

    /** For a block on {@code x} that trains {@code leaves}, some of which may be x itself. */
    static Recomputation of(
            Ops ops, List<Tensor> leaves, Tensor x, BiFunction<Ops, Tensor, Tensor> body, Checkpointing checkpointing) {
        Ops shapes = ops.shapesOnly();
        List<Ran> ran = new ArrayList<>();
        Tape tape = new Tape(new Watching(shapes, ran), leaves, Checkpointing.OFF);
        shapes.scope().within(() -> body.apply(tape, x));
        return new Recomputation(ran, plan(ran, tape.discard(), checkpointing));
    }

    private static List<Step> plan(List<Ran> ran, Set<Storage> saved, Checkpointing checkpointing) {
        List<Step> steps = new ArrayList<>(Collections.nCopies(ran.size(), Step.SKIP));
        if (checkpointing == Checkpointing.SELECTIVE) {
            keepWhatIsCostly(ran, saved, steps);
        }
        Set<Storage> needed = new HashSet<>(saved);
        for (int i = ran.size() - 1; i >= 0; i--) {
            Ran each = ran.get(i);
            boolean read = each.out.stream().anyMatch(needed::contains);
            if (steps.get(i) == Step.SKIP && (read || mutates(each))) {
                steps.set(i, Step.RUN);
                needed.addAll(each.in);
            }
        }
        return steps;
    }

    /** From first to last: a result that a gradient reads is kept if computing it from what is at hand takes a product. */
    private static void keepWhatIsCostly(List<Ran> ran, Set<Storage> saved, List<Step> steps) {
        Set<Storage> costly = new HashSet<>();
        for (int i = 0; i < ran.size(); i++) {
            Ran each = ran.get(i);
            if (!isProduct(each.op) && each.in.stream().noneMatch(costly::contains)) {
                continue;
            }
            if (each.out.stream().anyMatch(saved::contains)) {
                steps.set(i, Step.KEEP);
            } else {
                costly.addAll(each.out);
            }
        }
    }

    private static boolean isProduct(Op op) {
        return op instanceof Plain.MatMul
                || op instanceof Layers.Linear
                || op instanceof Routing.ExpertMatMul
                || op instanceof Fused.Attention;
    }

    private static boolean mutates(Ran ran) {
        for (int i = 0; i < ran.in.size(); i++) {
            if (ran.op.mutates(i)) {
                return true;
            }
        }
        return false;
    }

    /** For the first run: what is kept outlives the block, until {@link #drop}. */
    Ops keeping(Ops ops) {
        if (!steps.contains(Step.KEEP)) {
            return ops;
        }
        return new Stepped(ops) {
            private int at;

            @Override
            public Tensor[] runAll(Op op, Tensor... in) {
                if (op instanceof Layers fused && !ran.get(at).op.equals(op)) {
                    return scope().within(() -> fused.expand(this, in)); // as the tape has recorded it
                }
                Tensor[] out = ops.runAll(op, in);
                if (steps.get(at++) == Step.KEEP) {
                    for (Tensor tensor : out) {
                        scope().hold(tensor);
                    }
                    kept.add(out);
                }
                return out;
            }
        };
    }

    /** For the second run, and for the backward pass that follows: what is not read again is given no values. */
    Ops again(Ops ops) {
        Iterator<Step> step = steps.iterator();
        Iterator<Tensor[]> results = kept.iterator();
        return new Stepped(ops) {
            @Override
            public Tensor[] runAll(Op op, Tensor... in) {
                Step next = step.hasNext() ? step.next() : Step.RUN; // after the block its backward pass
                return switch (next) {
                    case KEEP -> results.next();
                    case RUN -> ops.runAll(op, in);
                    case SKIP -> allocate(op, in);
                };
            }

            private Tensor[] allocate(Op op, Tensor... in) {
                Spec[] specs = Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new);
                return Arrays.stream(op.outputs(specs)).map(scope()::allocate).toArray(Tensor[]::new);
            }
        };
    }

    void drop(Scope scope) {
        for (Tensor[] tensors : kept) {
            for (Tensor tensor : tensors) {
                scope.drop(tensor);
            }
        }
    }

    /** Ops that treat each operation as the plan has it; blocks within a block are part of it. */
    private abstract static class Stepped implements Ops {
        private final Ops ops;

        Stepped(Ops ops) {
            this.ops = ops;
        }

        @Override
        public Tensor reshape(Tensor x, Shape shape) {
            return ops.reshape(x, shape);
        }

        @Override
        public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
            return scope().within(() -> body.apply(this, x));
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

    private static final class Watching extends Stepped {
        private final Ops ops;
        private final List<Ran> ran;

        Watching(Ops ops, List<Ran> ran) {
            super(ops);
            this.ops = ops;
            this.ran = ran;
        }

        @Override
        public Tensor[] runAll(Op op, Tensor... in) {
            Tensor[] out = ops.runAll(op, in);
            ran.add(new Ran(op, blocks(in), blocks(out)));
            return out;
        }

        private static List<Storage> blocks(Tensor... tensors) {
            return Arrays.stream(tensors).map(Tensor::storage).toList();
        }
    }
}
