package dev.starforge.train;

import dev.starforge.model.Batches;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.tensor.Batch;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.EagerOps;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.NullOps;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Plain;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tape;
import dev.starforge.tensor.Tensor;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Moves parameters, an adapter's as a rule, against the loss of examples; everything else stays as it is. The loss of a step is the mean
 * over all of its target tokens. Examples are packed: they lie end to end and do not see each other.
 */
public final class Trainer implements AutoCloseable {
    private final Model model;
    private final Device device;
    private final Precision precision;
    private final Fallback fallback;
    private final Settings settings;
    private final Map<String, Tensor> parameters;
    private final Scope session;
    private final Scope step;
    private final EagerOps ops;
    private final List<Tensor> firstMoments = new ArrayList<>();
    private final List<Tensor> secondMoments = new ArrayList<>();
    private final Tensor rate;
    private int steps;

    /** How to train; maxNorm is where the gradient is clipped. */
    public record Settings(
            double learningRate,
            double beta1,
            double beta2,
            double eps,
            double weightDecay,
            double maxNorm,
            boolean checkpointing) {
        Plain.AdamW adamW() {
            return new Plain.AdamW(beta1, beta2, eps, weightDecay, maxNorm);
        }
    }

    /** What a step found before it moved anything: the mean loss, and the gradient's norm before clipping. */
    public record Report(double loss, double gradientNorm) {}

    public Trainer(
            Model model,
            Map<String, Tensor> parameters,
            Device device,
            Precision precision,
            Fallback fallback,
            Settings settings) {
        this.model = model;
        this.device = device;
        this.precision = precision;
        this.fallback = fallback;
        this.settings = settings;
        this.parameters = new LinkedHashMap<>(parameters);
        session = new Scope(device);
        step = new Scope(device);
        ops = device.ops(step, precision, fallback);
        rate = session.allocate(Spec.f32(3));
        for (Tensor parameter : parameters.values()) {
            firstMoments.add(zeros(parameter.spec()));
            secondMoments.add(zeros(parameter.spec()));
        }
    }

    private Tensor zeros(Spec spec) {
        Tensor tensor = session.allocate(spec);
        device.write(tensor, new float[Math.toIntExact(spec.shape().size())]);
        return tensor;
    }

    /** One optimizer step. */
    public Report step(List<Example> examples) {
        steps++;
        device.write(rate, (float) settings.learningRate(), (float) (1 - Math.pow(settings.beta1(), steps)), (float)
                (1 - Math.pow(settings.beta2(), steps)));
        step.mark();
        Result result = run(ops, examples);
        Report report = new Report(device.floats(result.loss)[0], device.floats(result.norm)[0]);
        step.release();
        return report;
    }

    /** The mean loss of examples, with nothing recorded and nothing moved. */
    public double loss(List<Example> examples) {
        return step.within(() -> device.floats(loss(ops, examples))[0]);
    }

    /** The gradient of every parameter by name, with nothing moved. */
    public Map<String, float[]> gradients(List<Example> examples) {
        return step.within(() -> {
            Tape tape = tape(ops);
            List<Tensor> gradients = tape.backward(loss(tape, examples));
            Map<String, float[]> byName = new LinkedHashMap<>();
            for (String name : parameters.keySet()) {
                byName.put(name, device.floats(gradients.get(byName.size())));
            }
            return byName;
        });
    }

    /** What a step with these examples would take beyond the weights and the optimizer's state. */
    public NullOps.Plan plan(List<Example> examples) {
        NullOps plan = new NullOps(device, precision, fallback);
        run(plan, examples);
        return plan.plan();
    }

    /** How often each operation ran as its expansion. */
    public Map<String, Long> fallbacks() {
        return ops.fallbacks();
    }

    /** The most bytes of tensors that steps so far had alive at one time. */
    public long peakBytes() {
        return step.peakBytes();
    }

    private record Result(Tensor loss, Tensor norm) {}

    private Result run(Ops ops, List<Example> examples) {
        Tape tape = tape(ops);
        Tensor loss = loss(tape, examples);
        List<Tensor> gradients = tape.backward(loss);
        Tensor norm = ops.run(new Plain.Norm(), gradients.toArray(Tensor[]::new));
        List<Tensor> moved = new ArrayList<>(parameters.values());
        for (int i = 0; i < moved.size(); i++) {
            ops.runAll(
                    settings.adamW(),
                    moved.get(i),
                    firstMoments.get(i),
                    secondMoments.get(i),
                    gradients.get(i),
                    norm,
                    rate);
        }
        return new Result(loss, norm);
    }

    private Tape tape(Ops ops) {
        return new Tape(ops, List.copyOf(parameters.values()), settings.checkpointing());
    }

    /** Each token predicts the next one of its example; every counted prediction has the same weight. */
    private Tensor loss(Ops ops, List<Example> examples) {
        int targets = examples.stream().mapToInt(Example::targets).sum();
        if (targets == 0) {
            throw new ShapeException("loss: none of " + examples.size() + " examples has a target token");
        }
        Scope scope = ops.scope();
        Batch batch =
                Batches.packed(model, scope, examples.stream().map(Example::ids).toList());
        int[] labels = new int[Math.toIntExact(batch.tokens())];
        float[] weights = new float[labels.length];
        int row = 0;
        for (Example example : examples) {
            for (int i = 0; i < example.ids().length; i++, row++) {
                labels[row] = i + 1 < example.labels().length ? example.labels()[i + 1] : Example.IGNORED;
                weights[row] = labels[row] == Example.IGNORED ? 0 : 1f / targets;
            }
        }
        Tensor labelTensor = scope.allocate(Spec.i32(labels.length));
        Tensor weightTensor = scope.allocate(Spec.f32(weights.length));
        scope.device().write(labelTensor, labels);
        scope.device().write(weightTensor, weights);
        return scope.within(() -> ops.crossEntropy(model.forward(ops, batch, KvCache.NONE), labelTensor, weightTensor));
    }

    @Override
    public void close() {
        step.close();
        session.close();
    }
}
