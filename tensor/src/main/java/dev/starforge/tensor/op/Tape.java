package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Storage;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * Wraps any {@link Ops} and records what depends on the parameters, so that it can run backward once. Backward is
 * operations too, run on the wrapped Ops. What no gradient needs is not kept: frozen weights cost nothing, and a stretch
 * before the first parameter is not recorded at all.
 *
 * <p>With {@link Checkpointing}, each {@link Ops#block} keeps less and runs a second time during backward. The second run
 * does the same operations on the same values, but for those whose result nothing reads, so the result is bit-equal.
 */
public final class Tape implements Ops {
    private final Ops ops;
    private final Checkpointing checkpointing;
    private final List<Tensor> parameters;
    private final Set<Tensor> live = new HashSet<>();
    private final Set<Tensor> rounded = new HashSet<>(); // of 16 bits, made from float32
    private final Map<Tensor, DType> widened = new HashMap<>(); // float32 results of products of 16 bits, as logits are
    private final List<Node> nodes = new ArrayList<>();
    private final Map<Storage, Integer> saved = new IdentityHashMap<>();
    private final Map<Tensor, Tensor> gradients = new LinkedHashMap<>();
    private boolean ran;

    public Tape(Ops ops, List<Tensor> parameters, Checkpointing checkpointing) {
        this.ops = ops;
        this.checkpointing = checkpointing;
        this.parameters = List.copyOf(parameters);
        for (Tensor parameter : parameters) {
            if (parameter.dtype().isQuantized()) {
                throw new TensorException("Tape: parameter " + parameter + " is quantized; such weights are frozen");
            }
        }
        live.addAll(parameters);
    }

    @Override
    public Tensor[] runAll(Op op, Tensor... in) {
        boolean[] needs = new boolean[in.length];
        boolean any = false;
        for (int i = 0; i < in.length; i++) {
            needs[i] = live.contains(in[i]);
            any |= needs[i];
            if (op.mutates(i) && (needs[i] || saved.containsKey(in[i].storage()))) {
                throw new TensorException(op.name() + ": would overwrite input " + i + " " + in[i]
                        + ", which the backward pass still needs");
            }
        }
        if (any && op instanceof Layers fused && !fused.isWhole()) {
            return scope().within(() -> fused.expand(this, in));
        }
        Tensor[] out = ops.runAll(op, in);
        if (any) {
            if (op instanceof Plain.Cast && in[0].dtype() == DType.F32) {
                rounded.add(out[0]);
            }
            boolean product = op instanceof Plain.MatMul || op instanceof Layers.Linear linear && !linear.residual();
            if (product && in[0].dtype() != DType.F32 && out[0].dtype() == DType.F32) {
                widened.put(out[0], in[0].dtype());
            }
            record(new OpNode(op, in.clone(), out.clone(), needs, op.saved(input -> needs[input])));
        }
        return out;
    }

    @Override
    public Tensor reshape(Tensor x, Shape shape) {
        Tensor y = ops.reshape(x, shape);
        if (live.contains(x)) {
            if (rounded.contains(x)) {
                rounded.add(y);
            }
            record(new ReshapeNode(x, y));
        }
        return y;
    }

    @Override
    public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
        return scope().within(() -> {
            if (checkpointing == Checkpointing.OFF) {
                return body.apply(this, x);
            }
            Recomputation recomputation = Recomputation.of(ops, leaves(x, x), x, body, checkpointing);
            Tensor y = body.apply(recomputation.keeping(ops), x);
            record(new CheckpointNode(x, y, body, recomputation));
            return y;
        });
    }

    /** What a block on x trains: the parameters, and x where it depends on some of them, as {@code leaf}. */
    private List<Tensor> leaves(Tensor x, Tensor leaf) {
        List<Tensor> leaves = new ArrayList<>(parameters);
        if (live.contains(x)) {
            leaves.add(leaf);
        }
        return leaves;
    }

    /** Gives up everything recorded; what its gradients would have read. */
    Set<Storage> discard() {
        Set<Storage> read = Set.copyOf(saved.keySet());
        nodes.forEach(this::forget);
        nodes.clear();
        ran = true;
        return read;
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

    /** The gradients of {@code loss} for the parameters, in their order; zero for one it does not depend on. Once. */
    public List<Tensor> backward(Tensor loss) {
        return backward(loss, ops.run(new Plain.Fill(loss.spec(), 1)));
    }

    /** The gradients of sum(y * dy) for the parameters, in their order. Once. */
    public List<Tensor> backward(Tensor y, Tensor dy) {
        if (ran) {
            throw new TensorException("backward: has run; a tape serves one backward pass");
        }
        ran = true;
        propagate(y, dy);
        List<Tensor> result = new ArrayList<>();
        for (Tensor parameter : parameters) {
            Tensor gradient = gradients.remove(parameter);
            if (gradient == null) {
                gradient = ops.run(new Plain.Fill(new Spec(gradientType(parameter), parameter.shape()), 0));
            } else {
                scope().adopt(gradient);
            }
            result.add(gradient);
        }
        return result;
    }

    private void propagate(Tensor y, Tensor dy) {
        accumulate(y, dy);
        while (!nodes.isEmpty()) {
            Node node = nodes.removeLast();
            scope().within(() -> {
                node.backward();
                return node;
            });
        }
    }

    /** A product has gradients of the type of its factors, with which they are multiplied. */
    private DType gradientType(Tensor tensor) {
        DType factors = widened.get(tensor);
        if (factors != null) {
            return factors;
        }
        return tensor.dtype() == DType.F32 || rounded.contains(tensor)
                ? DType.F32
                : precision().gradient();
    }

    /** Adds to the gradient of {@code tensor}; the sum is a new tensor, since the parts may be shared. */
    private void accumulate(Tensor tensor, Tensor part) {
        if (!live.contains(tensor)) {
            return;
        }
        Tensor gradient = ops.cast(part, gradientType(tensor));
        Tensor before = gradients.get(tensor);
        replace(tensor, before, before == null ? gradient : ops.add(before, gradient));
    }

    /** The same of a product, in one operation where there is a gradient already. */
    private void accumulate(Tensor tensor, Plain.MatMul product, Tensor a, Tensor b) {
        Tensor before = gradients.get(tensor);
        if (before != null && before.dtype() == product.to()) {
            replace(tensor, before, ops.run(new Layers.AddMatMul(product), a, b, before));
        } else {
            accumulate(tensor, ops.run(product, a, b));
        }
    }

    private void replace(Tensor tensor, @Nullable Tensor before, Tensor sum) {
        scope().hold(sum);
        gradients.put(tensor, sum);
        if (before != null) {
            scope().drop(before);
        }
    }

    private void record(Node node) {
        if (node.results().isEmpty()) {
            return;
        }
        for (Tensor tensor : node.keeps()) {
            scope().hold(tensor);
            saved.merge(tensor.storage(), 1, Integer::sum);
        }
        live.addAll(node.results());
        nodes.add(node);
    }

    private void forget(Node node) {
        for (Tensor tensor : node.keeps()) {
            saved.computeIfPresent(tensor.storage(), (block, count) -> count == 1 ? null : count - 1);
            scope().drop(tensor);
        }
    }

    /**
     * The gradient of sum(expansion(in)[0] * d) for the inputs that need one, in their order. This defines every fused
     * operation's backward.
     */
    public static Tensor[] gradientOfExpansion(Fused op, Ops ops, Tensor[] in, Tensor d, Op.Needs needs) {
        Tensor[] leaves = new Tensor[in.length];
        List<Tensor> wanted = new ArrayList<>();
        for (int i = 0; i < in.length; i++) {
            leaves[i] = ops.reshape(in[i], in[i].shape()); // a new identity that an outer tape still follows
            if (needs.needs(i)) {
                wanted.add(leaves[i]);
            }
        }
        Tape tape = new Tape(ops, wanted, Checkpointing.OFF);
        return tape.backward(op.expand(tape, leaves)[0], d).toArray(Tensor[]::new);
    }

    private interface Node {
        List<Tensor> keeps();

        List<Tensor> results();

        void backward();
    }

    private final class OpNode implements Node, Backward {
        private final Op op;
        private final Tensor[] in;
        private final Tensor[] out;
        private final boolean[] needs;
        private final Op.Saved saves;
        private final boolean[] given;
        private Map<Integer, Tensor> arrived = Map.of();

        OpNode(Op op, Tensor[] in, Tensor[] out, boolean[] needs, Op.Saved saves) {
            this.op = op;
            this.in = in;
            this.out = out;
            this.needs = needs;
            this.saves = saves;
            this.given = new boolean[in.length];
        }

        @Override
        public List<Tensor> keeps() {
            List<Tensor> keeps = new ArrayList<>();
            for (int i = 0; i < in.length; i++) {
                if (saves.input(i)) {
                    keeps.add(in[i]);
                }
            }
            for (int i = 0; i < out.length; i++) {
                if (saves.output(i)) {
                    keeps.add(out[i]);
                }
            }
            return keeps;
        }

        @Override
        public List<Tensor> results() {
            return Arrays.stream(out)
                    .filter(tensor -> tensor.dtype().isFloat())
                    .toList(); // what is chosen or counted has no gradient
        }

        @Override
        public void backward() {
            arrived = new HashMap<>();
            for (int i = 0; i < out.length; i++) {
                Tensor gradient = gradients.remove(out[i]);
                if (gradient != null) {
                    arrived.put(i, gradient);
                }
            }
            if (!arrived.isEmpty()) {
                op.gradient(ops, this);
                requireAllGiven();
            }
            arrived.values().forEach(scope()::drop);
            forget(this);
        }

        private void requireAllGiven() {
            for (int i = 0; i < in.length; i++) {
                if (needs[i] && !given[i]) {
                    throw new TensorException(op.name() + ": has no gradient for input " + i + " " + in[i]);
                }
            }
        }

        @Override
        public int inputs() {
            return in.length;
        }

        @Override
        public Tensor in(int input) {
            return declared(saves.input(input), "input", input, in);
        }

        @Override
        public Tensor out(int output) {
            return declared(saves.output(output), "output", output, out);
        }

        private Tensor declared(boolean isSaved, String what, int index, Tensor[] tensors) {
            if (!isSaved) {
                throw new TensorException(op.name() + ": its gradient reads " + what + " " + index
                        + ", which it did not declare as saved");
            }
            return tensors[index];
        }

        @Override
        public Spec spec(int input) {
            return in[input].spec();
        }

        @Override
        public DType gradientType(int input) {
            return Tape.this.gradientType(in[input]);
        }

        @Override
        public Tensor d(int output) {
            Tensor gradient = arrived.get(output);
            if (gradient == null) {
                throw new TensorException(op.name() + ": no gradient arrived at output " + output
                        + "; only its first output is differentiable");
            }
            return gradient;
        }

        @Override
        public boolean needs(int input) {
            return needs[input];
        }

        @Override
        public void give(int input, Tensor gradient) {
            given[input] = true;
            if (needs[input]) {
                accumulate(in[input], gradient);
            }
        }

        @Override
        public void give(int input, Plain.MatMul product, Tensor a, Tensor b) {
            given[input] = true;
            if (needs[input]) {
                accumulate(in[input], product, a, b);
            }
        }
    }

    private final class ReshapeNode implements Node {
        private final Tensor x;
        private final Tensor y;

        ReshapeNode(Tensor x, Tensor y) {
            this.x = x;
            this.y = y;
        }

        @Override
        public List<Tensor> keeps() {
            return List.of();
        }

        @Override
        public List<Tensor> results() {
            return List.of(y);
        }

        @Override
        public void backward() {
            Tensor dy = gradients.remove(y);
            if (dy != null) {
                accumulate(x, ops.reshape(dy, x.shape()));
                scope().drop(dy);
            }
        }
    }

    private final class CheckpointNode implements Node {
        private final Tensor x;
        private final Tensor y;
        private final BiFunction<Ops, Tensor, Tensor> body;
        private final Recomputation recomputation;

        CheckpointNode(Tensor x, Tensor y, BiFunction<Ops, Tensor, Tensor> body, Recomputation recomputation) {
            this.x = x;
            this.y = y;
            this.body = body;
            this.recomputation = recomputation;
        }

        @Override
        public List<Tensor> keeps() {
            return List.of(x);
        }

        @Override
        public List<Tensor> results() {
            return List.of(y);
        }

        @Override
        public void backward() {
            Tensor dy = gradients.remove(y);
            if (dy != null) {
                Tensor leaf = x.view(0, x.shape());
                Tape again = new Tape(recomputation.again(ops), leaves(x, leaf), Checkpointing.OFF);
                again.propagate(again.block(leaf, body), dy);
                again.gradients.forEach((tensor, gradient) -> {
                    accumulate(tensor == leaf ? x : tensor, gradient);
                    scope().drop(gradient);
                });
                scope().drop(dy);
            }
            recomputation.drop(scope());
            forget(this);
        }
    }
}
