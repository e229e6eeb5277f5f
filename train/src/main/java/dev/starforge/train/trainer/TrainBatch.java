package dev.starforge.train.trainer;

import dev.starforge.model.Model;
import dev.starforge.model.kv.Batches;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.train.corpus.TrainingExample;
import java.util.List;

/**
 * Examples packed end to end, on the device. Each token predicts the next token of its example.
 *
 * @param labels the target of each token, or {@link TrainingExample#IGNORED}
 * @param weights loss weight of each token; 0 if its label is ignored
 */
record TrainBatch(List<TrainingExample> examples, Batch batch, Tensor labels, Tensor weights) {
    private static final int NOISE = 0x4e4f4953;

    /** @param divisor sum of all weights of the step, so that its loss is a mean */
    static TrainBatch of(Model model, Scope scope, List<TrainingExample> examples, double divisor) {
        Batch batch = Batches.packed(
                model, scope, examples.stream().map(TrainingExample::ids).toList());
        int[] labels = new int[Math.toIntExact(batch.tokens())];
        float[] weights = new float[labels.length];
        int row = 0;
        for (TrainingExample example : examples) {
            for (int i = 0; i < example.ids().length; i++, row++) {
                labels[row] = i + 1 < example.labels().length ? example.labels()[i + 1] : TrainingExample.IGNORED;
                weights[row] = labels[row] == TrainingExample.IGNORED ? 0 : (float) (example.weight() / divisor);
            }
        }
        return new TrainBatch(examples, batch, ints(scope, labels), floats(scope, weights));
    }

    /** Dropout and NEFTune noise of a step, keyed by step number, sample and position. */
    NeftuneOps.Noise noise(Scope scope, TrainerSettings settings, int hiddenSize, long number) {
        int tokens = Math.toIntExact(batch.tokens());
        int[] samples = new int[tokens];
        float[] magnitudes = new float[tokens];
        int row = 0;
        for (TrainingExample example : examples) {
            for (int i = 0; i < example.ids().length; i++, row++) {
                samples[row] = example.sample();
                magnitudes[row] = (float) (settings.neftune() / Math.sqrt((double) example.ids().length * hiddenSize));
            }
        }
        int[] words = Philox.words(
                (int) number, (int) (number >>> 32), NOISE, 0, (int) settings.seed(), (int) (settings.seed() >>> 32));
        return new NeftuneOps.Noise(
                (float) settings.dropout(),
                settings.neftune() > 0,
                ints(scope, samples),
                batch.positions(),
                ints(scope, words[0], words[1]),
                floats(scope, magnitudes));
    }

    private static Tensor ints(Scope scope, int... values) {
        Tensor tensor = scope.allocate(Spec.i32(values.length));
        scope.device().write(tensor, values);
        return tensor;
    }

    private static Tensor floats(Scope scope, float... values) {
        Tensor tensor = scope.allocate(Spec.f32(values.length));
        scope.device().write(tensor, values);
        return tensor;
    }
}
