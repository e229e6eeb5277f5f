package dev.starforge.model.convert;

import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.gguf.GgufNames;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.BiFunction;

/**
 * Adds up the squares of the inputs of the matrices of a model's blocks, for an {@link ImportanceMatrix}. Embeddings and the LM
 * head have no entries, as in llama-imatrix: a text's tokens say little about the others.
 */
public final class ImportanceCollector {
    private final Device device;
    private final Map<Tensor, String> names = new IdentityHashMap<>();
    private final SortedMap<String, ImportanceMatrix.Entry> entries = new TreeMap<>();

    public ImportanceCollector(Device device, Model model) {
        this.device = device;
        for (Model.Block block : model.blocks()) {
            for (Parameter matrix : block.matrices()) {
                names.put(matrix.tensor(), GgufNames.tensor(matrix.names().getFirst()));
            }
        }
    }

    /** Returns what was collected. */
    public SortedMap<String, ImportanceMatrix.Entry> entries() {
        return entries;
    }

    /** Wraps the ops of a forward pass. */
    public Ops observe(Ops ops) {
        return new ObservingOps(ops, this);
    }

    private record ObservingOps(Ops ops, ImportanceCollector collector) implements Ops {
        @Override
        public Tensor[] runAll(Op op, Tensor... in) {
            collector.see(ops, op, in);
            return ops.runAll(op, in);
        }

        @Override
        public Tensor reshape(Tensor x, Shape shape) {
            return ops.reshape(x, shape);
        }

        @Override
        public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
            return ops.block(x, (inner, y) -> body.apply(new ObservingOps(inner, collector), y));
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

    private void see(Ops ops, Op op, Tensor... in) {
        if (op instanceof Layers.Linear linear) {
            add(ops, in[0], List.of(in).subList(1, 1 + linear.weights()));
        } else if (op instanceof Plain.MatMul matmul && matmul.transposeB()) {
            add(ops, in[0], List.of(in[1]));
        } else if (op instanceof Routing.ExpertMatMul experts && experts.transposeB() && names.containsKey(in[1])) {
            addExperts(floats(ops, in[0]), in[1], device.ints(in[2]));
        }
    }

    private float[] floats(Ops ops, Tensor x) {
        return device.floats(x.dtype() == DType.F32 ? x : ops.run(new Plain.Cast(DType.F32), x));
    }

    private void add(Ops ops, Tensor x, List<Tensor> weights) {
        List<String> known =
                weights.stream().filter(names::containsKey).map(names::get).toList();
        if (!known.isEmpty()) {
            double[] squares = new double[(int) x.shape().last()];
            int rows = (int) (x.shape().size() / squares.length);
            addSquares(floats(ops, x), squares.length, 0, rows, squares, 0);
            known.forEach(name -> add(name, squares, new double[] {rows}));
        }
    }

    private void addExperts(float[] values, Tensor stack, int... offsets) {
        int experts = (int) stack.dim(0);
        int columns = (int) stack.dim(2);
        double[] squares = new double[experts * columns];
        double[] rows = new double[experts];
        for (int expert = 0; expert < experts; expert++) {
            addSquares(values, columns, offsets[expert], offsets[expert + 1], squares, expert * columns);
            rows[expert] = offsets[expert + 1] - offsets[expert];
        }
        add(Objects.requireNonNull(names.get(stack)), squares, rows);
    }

    private static void addSquares(float[] values, int columns, int begin, int end, double[] squares, int at) {
        for (int row = begin; row < end; row++) {
            for (int c = 0; c < columns; c++) {
                double value = values[row * columns + c];
                squares[at + c] += value * value;
            }
        }
    }

    private void add(String name, double[] squares, double[] rows) {
        ImportanceMatrix.Entry entry = entries.computeIfAbsent(
                name, key -> new ImportanceMatrix.Entry(new double[squares.length], new double[rows.length]));
        for (int i = 0; i < squares.length; i++) {
            if (!Double.isFinite(squares[i])) {
                throw new TensorException("importance of " + name + ": input " + i % (squares.length / rows.length)
                        + " is infinite or not a number");
            }
            entry.sums()[i] += squares[i];
        }
        for (int i = 0; i < rows.length; i++) {
            entry.counts()[i] += rows[i];
        }
    }
}
