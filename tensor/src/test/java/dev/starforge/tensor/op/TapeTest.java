package dev.starforge.tensor.op;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.OnReference;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

final class TapeTest {
    private final OnReference on = new OnReference();

    @AfterEach
    void close() {
        on.close();
    }

    private Tape tape(Tensor... parameters) {
        return new Tape(on.ops, List.of(parameters), Checkpointing.OFF);
    }

    private static Tensor total(Ops ops, Tensor x) {
        return ops.run(new Plain.Sum(Plain.Sum.Over.LAST), x);
    }

    @Test
    void accumulatesTheGradientsOfATensorUsedTwice() {
        Tensor x = on.row(1, -2, 3);
        Tape tape = tape(x);
        Tensor y = tape.add(tape.mul(x, x), tape.scale(x, 5)); // x^2 + 5x
        assertThat(on.read(tape.backward(total(tape, y)).getFirst())).containsExactly(7, 1, 11);
    }

    @Test
    void accumulatesGradientsOverAllPaths() {
        Tensor x = on.row(2, 3);
        Tape tape = tape(x);
        Tensor h = tape.scale(x, 3);
        Tensor y = tape.add(tape.mul(h, h), tape.add(h, h)); // 9x^2 + 6x
        assertThat(on.read(tape.backward(total(tape, y)).getFirst())).containsExactly(42, 60);
    }

    @Test
    void oneGradientForEachParameterInOrderAndZeroForOneThatIsNotUsed() {
        Tensor a = on.row(2);
        Tensor unused = on.row(3, 4);
        Tensor b = on.row(5);
        Tape tape = tape(a, unused, b);
        List<float[]> gradients = on.read(tape.backward(tape.mul(a, b)));
        assertThat(gradients.get(0)).containsExactly(5);
        assertThat(gradients.get(1)).containsExactly(0, 0);
        assertThat(gradients.get(2)).containsExactly(2);
    }

    @Test
    void followsReshapes() {
        Tensor x = on.normal(1, 2, 3);
        Tape tape = tape(x);
        Tensor column = on.floats(Shape.of(3, 1), 1, 10, 100);
        Tensor y = tape.mul(tape.reshape(x, Shape.of(3, 2)), column);
        Tensor d = tape.backward(total(tape, tape.reshape(y, Shape.of(6)))).getFirst();
        assertThat(d.shape()).isEqualTo(Shape.of(2, 3));
        assertThat(on.read(d)).containsExactly(1, 1, 10, 10, 100, 100);
    }

    @Test
    void refusesToOverwriteTensorsThatBackwardReads() {
        Tensor cache = on.normal(1, 4, 3);
        Tensor p = on.normal(2, 4, 3);
        Tape tape = tape(p);
        tape.mul(cache, p);
        assertThatThrownBy(() -> tape.store(cache, on.ints(1), on.normal(3, 1, 3)))
                .isInstanceOf(TensorException.class)
                .hasMessage("Store: would overwrite input 0 F32[4, 3], which the backward pass still needs");
        assertThatThrownBy(() -> tape.store(cache.view(3, Shape.of(3, 3)), on.ints(1), on.normal(3, 1, 3)))
                .as("through a view of it")
                .isInstanceOf(TensorException.class);
    }

    @Test
    void refusesToOverwriteTensorsWithAGradient() {
        Tensor p = on.normal(1, 4, 3);
        Tape tape = tape(p);
        assertThatThrownBy(() -> tape.store(p, on.ints(1), on.normal(2, 1, 3))).isInstanceOf(TensorException.class);
    }

    @Test
    void overwritesTensorsThatNoGradientReads() {
        Tensor p = on.row(1, 2);
        Tensor saved = on.normal(1, 1, 2);
        Tensor cache = on.normal(2, 4, 2);
        Tape tape = tape(p);
        Tensor y = tape.mul(saved, p);
        tape.store(cache, on.ints(0), on.floats(Shape.of(1, 2), 8, 9));
        assertThat(on.read(cache.view(0, Shape.of(2)))).containsExactly(8, 9);
        tape.backward(y);
        assertThatCode(() -> tape.store(saved, on.ints(0), on.normal(3, 1, 2)))
                .as("backward is done")
                .doesNotThrowAnyException();
    }

    @Test
    void aGradientMayReadOnlyWhatItsOperationDeclared() throws ReflectiveOperationException {
        Tensor a = on.row(1);
        Tensor b = on.row(2);
        Tape tape = tape(a);
        tape.mul(a, b);
        Field nodes = Tape.class.getDeclaredField("nodes");
        nodes.setAccessible(true);
        Backward rule = (Backward) ((List<?>) nodes.get(tape)).getFirst();
        assertThat(rule.in(1)).isSameAs(b);
        assertThatThrownBy(() -> rule.in(0))
                .isInstanceOf(TensorException.class)
                .hasMessage("Mul: its gradient reads input 0, which it did not declare as saved");
        assertThatThrownBy(() -> rule.out(0)).isInstanceOf(TensorException.class);
        assertThat(rule.needs(0)).isTrue();
        assertThat(rule.needs(1)).isFalse();
    }

    @Test
    void tensorsIndependentOfParametersAreNotSaved() {
        Tensor frozen = on.normal(1, 64);
        Tensor p = on.normal(2, 64);
        Tape tape = tape(p);
        long before = on.scope.usedBytes();
        on.scope.mark();
        Tensor h = tape.mul(tape.map(Fn.SILU, frozen), frozen);
        on.scope.release();
        assertThat(on.scope.usedBytes()).isEqualTo(before);
        assertThatThrownBy(() -> on.ops.scale(h, 1)).isInstanceOf(TensorException.class);
    }

    @Test
    void onlyTensorsThatGradientsReadAreSaved() {
        Tensor p = on.normal(1, 64);
        Tape tape = tape(p);
        long before = on.scope.usedBytes();
        on.scope.mark();
        Tensor x = on.ops.scale(on.normal(2, 64), 1);
        Tensor y = tape.mul(x, p); // d p needs x; x is frozen, so p is not needed for it
        tape.add(y, y);
        on.scope.release();
        assertThat(on.scope.usedBytes() - before).isEqualTo(256);
        assertThat(on.read(on.ops.scale(x, 1))).hasSize(64);
    }

    /** Three blocks of norm, product and gate, with a residual. */
    private static Tensor network(Ops ops, Tensor x, List<Tensor> p) {
        for (int layer = 0; layer < 3; layer++) {
            Tensor norm = p.get(2 * layer);
            Tensor weight = p.get(2 * layer + 1);
            x = ops.block(x, (o, h) -> {
                Tensor n = o.rmsNorm(h, norm, 1e-5f);
                return o.add(h, o.gated(Fn.SILU, o.project(n, weight), n));
            });
        }
        return x;
    }

    private List<Tensor> parameters() {
        return List.of(
                on.normal(1, 8),
                on.normal(2, 8, 8),
                on.normal(3, 8),
                on.normal(4, 8, 8),
                on.normal(5, 8),
                on.normal(6, 8, 8));
    }

    private List<float[]> train(List<Tensor> parameters, Tensor x, Checkpointing checkpointing) {
        on.scope.mark();
        Tape tape = new Tape(on.ops, parameters, checkpointing);
        Tensor y = network(tape, x, parameters);
        Tensor loss = tape.crossEntropy(y, on.ints(0, 3, 7, 1, 2), on.row(1, 0.5f, 0, 1, 1));
        List<float[]> gradients = on.read(tape.backward(loss));
        on.scope.release();
        return gradients;
    }

    @Test
    void checkpointingChangesNoBit() {
        List<Tensor> parameters = parameters();
        Tensor x = on.normal(7, 5, 8);
        List<float[]> kept = train(parameters, x, Checkpointing.OFF);
        for (Checkpointing checkpointing : List.of(Checkpointing.SELECTIVE, Checkpointing.FULL)) {
            List<float[]> recomputed = train(parameters, x, checkpointing);
            for (int i = 0; i < kept.size(); i++) {
                assertThat(recomputed.get(i))
                        .as("parameter " + i)
                        .isEqualTo(kept.get(i))
                        .isNotEqualTo(new float[kept.get(i).length]);
            }
        }
    }

    @Test
    void checkpointingReachesATrainedInput() {
        Tensor x = on.row(1, 2);
        Tape tape = new Tape(on.ops, List.of(x), Checkpointing.FULL);
        Tensor y = tape.block(x, (ops, h) -> ops.mul(h, h));
        assertThat(on.read(tape.backward(total(tape, y)).getFirst())).containsExactly(2, 4);
    }

    @Test
    void allSavedTensorsAreFreed() {
        List<Tensor> parameters = parameters();
        Tensor x = on.normal(7, 5, 8);
        long before = on.scope.usedBytes();
        for (Checkpointing checkpointing : Checkpointing.values()) {
            train(parameters, x, checkpointing);
            assertThat(on.scope.usedBytes())
                    .as("checkpointing " + checkpointing)
                    .isEqualTo(before);
        }
    }

    @Test
    void checkpointingKeepsLess() {
        List<Tensor> parameters = parameters();
        Tensor x = on.normal(7, 5, 8);
        List<Long> held = new ArrayList<>();
        for (Checkpointing checkpointing : Checkpointing.values()) {
            on.scope.mark();
            long before = on.scope.usedBytes();
            Tape tape = new Tape(on.ops, parameters, checkpointing);
            Tensor y = network(tape, x, parameters);
            held.add(on.scope.usedBytes() - before);
            tape.backward(y, on.normal(8, 5, 8));
            on.scope.release();
        }
        assertThat(held.get(1)).isLessThan(held.get(0));
        assertThat(held.get(2)).isLessThan(held.get(1)).isLessThan(held.get(0) / 2);
    }

    /** norm -> product -> activation -> product: the first product is kept or runs again, the last one never does. */
    @Test
    void onlyWhatAGradientReadsIsRecomputed() {
        Tensor norm = on.normal(1, 8);
        Tensor up = on.normal(2, 8, 8);
        Tensor down = on.normal(3, 8, 8);
        Tensor x = on.normal(7, 5, 8);
        Map<Checkpointing, List<String>> again = new EnumMap<>(Checkpointing.class);
        for (Checkpointing checkpointing : Checkpointing.values()) {
            List<String> ran = new ArrayList<>();
            Tape tape = new Tape(new Named(on.ops, ran), List.of(norm, up, down), checkpointing);
            Tensor y = tape.block(x, (ops, h) -> {
                Tensor n = ops.rmsNorm(h, norm, 1e-5f);
                return ops.add(h, ops.project(ops.map(Fn.SILU, ops.project(n, up)), down));
            });
            ran.clear();
            tape.backward(y, on.normal(8, 5, 8));
            again.put(checkpointing, ran);
        }
        List<String> backward = again.get(Checkpointing.OFF);
        assertThat(without(again.get(Checkpointing.SELECTIVE), backward)).containsExactly("RmsNorm", "Map");
        assertThat(without(again.get(Checkpointing.FULL), backward)).containsExactly("RmsNorm", "MatMul", "Map");
    }

    /** As the gradient of what queries, keys and values are computed from. */
    @Test
    void laterMatMulsAccumulateIntoTheExistingGradient() {
        Tensor x = on.normal(1, 5, 8);
        Tensor v = on.normal(2, 6, 8);
        Tensor w = on.normal(3, 6, 8);
        List<String> ran = new ArrayList<>();
        Tape tape = new Tape(new Named(on.ops, ran), List.of(x), Checkpointing.OFF);
        Tensor y = tape.add(tape.project(x, v), tape.project(x, w));
        ran.clear();
        Tensor dy = on.normal(4, 5, 6);
        float[] gradient = on.read(tape.backward(y, dy).getFirst());
        assertThat(ran).containsExactly("MatMul", "AddMatMul");
        Tensor expected = on.ops.run(new Plain.MatMul(false, false), dy, on.ops.add(v, w));
        assertThat(gradient).usingComparatorWithPrecision(1e-5f).containsExactly(on.read(expected));
    }

    /** Logits are float32; the products that their gradient goes into have factors of 16 bits. */
    @Test
    void theGradientOfAFloat32MatMulHasTheTypeOfItsInputs() {
        Tensor x = on.ops.cast(on.normal(1, 5, 8), DType.BF16);
        Tensor w = on.ops.cast(on.normal(2, 6, 8), DType.BF16);
        Tensor bias = on.normal(3, 6);
        Layers.Linear head = new Layers.Linear(1, true, Fn.IDENTITY, false, DType.F32, false);
        Tape tape = new Tape(on.ops, List.of(x), Checkpointing.OFF);
        Tensor logits = tape.run(head, x, w, bias);
        Tensor dy = on.normal(4, 5, 6);
        float[] gradient = on.read(on.ops.cast(tape.backward(logits, dy).getFirst(), DType.F32));
        Plain.MatMul product = new Plain.MatMul(false, false, on.ops.precision().gradient());
        Tensor expected = on.ops.run(product, on.ops.cast(dy, DType.BF16), w);
        assertThat(gradient).containsExactly(on.read(on.ops.cast(expected, DType.F32)));
    }

    private static List<String> without(List<String> all, List<String> last) {
        assertThat(all).endsWith(last.toArray(String[]::new));
        return all.subList(0, all.size() - last.size());
    }

    /** Notes the name of each operation that runs. */
    private record Named(Ops ops, List<String> ran) implements Ops {
        @Override
        public Tensor[] runAll(Op op, Tensor... in) {
            ran.add(op.getClass().getSimpleName());
            return ops.runAll(op, in);
        }

        @Override
        public Tensor reshape(Tensor x, Shape shape) {
            return ops.reshape(x, shape);
        }

        @Override
        public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
            return ops.block(x, body);
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

    @Test
    void backwardRunsOnce() {
        Tensor x = on.row(1);
        Tape tape = tape(x);
        Tensor y = tape.scale(x, 2);
        tape.backward(y);
        assertThatThrownBy(() -> tape.backward(y)).isInstanceOf(TensorException.class);
    }

    @Test
    void refusesAnOperationWithoutAGradient() {
        Tensor x = on.row(1, 2);
        Tape tape = tape(x);
        Tensor y = tape.run(new Plain.Norm(), x);
        assertThatThrownBy(() -> tape.backward(y))
                .isInstanceOf(TensorException.class)
                .hasMessage("Norm: has no gradient");
    }

    /** The gradient of a gradient's expansion is a tape on a tape: the outer one must see through the inner one's leaves. */
    @Test
    void refusesASecondDerivativeItDoesNotHave() {
        Tensor gate = on.row(0.5f, -1);
        Tape tape = tape(gate);
        assertThatThrownBy(() -> {
                    Tensor dgate = tape.run(new Fused.GatedGrad(Fn.SILU), gate, on.row(2, 3), on.row(7, 11));
                    tape.backward(total(tape, dgate));
                })
                .isInstanceOf(TensorException.class)
                .hasMessage("MapGrad: has no gradient");
    }
}
