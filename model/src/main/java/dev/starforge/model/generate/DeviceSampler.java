package dev.starforge.model.generate;

import dev.starforge.model.generate.Engine.Choice;
import dev.starforge.model.generate.Engine.Chosen;
import dev.starforge.tensor.EagerOps;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.Setting;
import java.util.Arrays;
import java.util.List;

/**
 * Chooses tokens where the logits are, so that only tokens come back. Uses of tokens are counted there, too, one row of the
 * vocabulary for each text that has penalties.
 */
final class DeviceSampler {
    private final Device device;
    private final int vocabulary;
    private final Tensor uses; // [histories, V]

    DeviceSampler(Device device, Scope session, int vocabulary, int histories) {
        this.device = device;
        this.vocabulary = vocabulary;
        uses = session.allocate(Spec.i32(histories, vocabulary));
    }

    /** Begins a history with the tokens of a prompt and those generated since. */
    void remember(int history, int[] prompt, int[] generated) {
        int[] row = new int[vocabulary];
        Arrays.fill(row, Decoding.NEVER);
        for (int id : prompt) {
            row[id] = 0;
        }
        for (int id : generated) {
            row[id] = Math.max(0, row[id]) + 1;
        }
        device.write(uses.view((long) history * vocabulary, Shape.of(vocabulary)), row);
    }

    Chosen sample(EagerOps ops, Tensor logits, List<Choice> choices, int top) {
        int rows = choices.size();
        float[] settings = new float[rows * Setting.COUNT];
        int[] draws = new int[3 * rows];
        int[] histories = new int[rows];
        for (int i = 0; i < rows; i++) {
            Choice choice = choices.get(i);
            System.arraycopy(choice.sampling().row(), 0, settings, i * Setting.COUNT, Setting.COUNT);
            draws[3 * i] = (int) choice.sampling().seed();
            draws[3 * i + 1] = (int) (choice.sampling().seed() >>> 32);
            draws[3 * i + 2] = choice.index();
            histories[i] = choice.history();
        }
        return ops.scope().within(() -> {
            Scope scope = ops.scope();
            Tensor[] chosen = ops.runAll(
                    new Decoding.Sample(top),
                    logits,
                    written(scope, Shape.of(rows, Setting.COUNT), settings),
                    written(scope, Shape.of(rows, 3), draws),
                    written(scope, Shape.of(rows), histories),
                    uses,
                    scope.allocate(Spec.i32(rows, 0)),
                    scope.allocate(Spec.f32(rows, 0)),
                    scope.allocate(Spec.i32(rows, 0)));
            return new Chosen(
                    device.ints(chosen[0]), device.floats(chosen[1]), device.ints(chosen[2]), device.floats(chosen[3]));
        });
    }

    private Tensor written(Scope scope, Shape shape, float... values) {
        Tensor tensor = scope.allocate(Spec.f32(shape.dims()));
        device.write(tensor, values);
        return tensor;
    }

    private Tensor written(Scope scope, Shape shape, int... values) {
        Tensor tensor = scope.allocate(Spec.i32(shape.dims()));
        device.write(tensor, values);
        return tensor;
    }
}
