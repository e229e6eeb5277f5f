package dev.starforge.train.trainer;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Tape;
import dev.starforge.tensor.op.Training;
import dev.starforge.train.corpus.TrainingExample;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Runs training steps: forward, backward and optimizer update of an adapter or of all weights. The loss of a step is the
 * mean over all of its target tokens, independent of the split into micro-batches. Sequences are packed and do not attend
 * to each other.
 *
 * <p>Logits are never materialized for all tokens: the LM head, the cross-entropy loss and its gradient are computed in
 * chunks of rows, since the gradient of a mean does not depend on the other rows.
 */
public final class Trainer implements AutoCloseable {
    private static final int LOGITS = 1 << 25;

    private final Model model;
    private final Device device;
    private final Precision precision;
    private final Fallback fallback;
    private final TrainerSettings settings;
    private final int logits;
    private final Map<String, Tensor> parameters;
    private final Set<Tensor> headParameters;
    private final Optimizer optimizer;
    private Scope step;
    private EagerOps ops;
    private final LossScale lossScale;
    private int hiddenSize;

    /**
     * The result of a step.
     *
     * @param loss mean over all target tokens
     * @param gradientNorm before clipping
     * @param targets number of predictions that count
     * @param moved false if the update was skipped because loss or gradient was not finite
     * @param scaledDown true if the step was skipped because the loss scale was too large; the scale is lower now
     */
    public record Report(double loss, double gradientNorm, long targets, boolean moved, boolean scaledDown) {}

    public Trainer(
            Model model,
            Map<String, Tensor> parameters,
            Device device,
            Precision precision,
            Fallback fallback,
            TrainerSettings settings) {
        this(model, parameters, device, precision, fallback, settings, LOGITS);
    }

    /** Holds at most {@code logits} elements of logits at one time, but at least 64 rows. */
    Trainer(
            Model model,
            Map<String, Tensor> parameters,
            Device device,
            Precision precision,
            Fallback fallback,
            TrainerSettings settings,
            int logits) {
        this.logits = logits;
        this.model = model;
        this.device = device;
        this.precision = precision;
        this.fallback = fallback;
        this.settings = settings;
        this.lossScale = settings.scaled() ? LossScale.dynamic() : LossScale.none();
        this.parameters = new LinkedHashMap<>(parameters);
        this.headParameters = usedByHead();
        optimizer = new Optimizer(this.parameters, device, settings);
        step = new Scope(device);
        ops = device.ops(step, precision, fallback);
    }

    /** The parameters that the LM head reads, found by a shape-only run. */
    private Set<Tensor> usedByHead() {
        Set<Tensor> used = new HashSet<>();
        Ops shapes = new NullOps(device, precision, fallback);
        hiddenSize = Math.toIntExact(shapes.scope()
                .within(() -> hidden(
                        shapes,
                        TrainBatch.of(model, shapes.scope(), List.of(new TrainingExample(new int[1], new int[1])), 1)))
                .dim(1));
        Ops recording = new RecordingOps(shapes, used);
        model.logits(recording, shapes.run(new Plain.Fill(Spec.f32(1, hiddenSize), 0)));
        used.retainAll(Set.copyOf(parameters.values()));
        return used;
    }

    /** Runs one optimizer step over examples that fit one batch. */
    public Report step(List<TrainingExample> examples, double learningRate) {
        return step(List.of(examples), learningRate, optimizer.updates());
    }

    /**
     * Runs one optimizer step over micro-batches.
     *
     * @param number of the step, which keys its noise
     * @throws MemoryException if the device is out of memory; nothing has changed then
     */
    public Report step(List<List<TrainingExample>> batches, double learningRate, long number) {
        return start(batches, learningRate, number).report();
    }

    /** Starts a step without waiting for its result, so the host can do other work meanwhile. */
    public Started start(List<List<TrainingExample>> batches, double learningRate, long number) {
        step.mark();
        try {
            return launch(batches, learningRate, number);
        } catch (MemoryException full) {
            step.close(); // a tape that did not run backward still holds tensors
            step = new Scope(device);
            ops = device.ops(step, precision, fallback);
            throw full;
        } catch (RuntimeException | Error failure) {
            step.release();
            throw failure;
        }
    }

    private Started launch(List<List<TrainingExample>> batches, double learningRate, long number) {
        double scale = lossScale.value();
        double divisor = divisor(batches) / scale;
        Tensor found = step.within(() -> {
            List<Tensor> losses = new ArrayList<>();
            List<Tensor> gradients = new ArrayList<>();
            for (List<TrainingExample> batch : batches) {
                Tensor[] results = step.within(() -> {
                    Pass pass = backward(ops, batch, divisor, number, settings.checkpointing());
                    Tensor[] sums = gradients.isEmpty() ? own(pass.gradients()) : sum(gradients, pass.gradients());
                    return Stream.concat(Stream.of(pass.losses()), Stream.of(sums))
                            .toArray(Tensor[]::new);
                });
                losses.add(results[0]);
                gradients.addAll(List.of(results).subList(1, results.length));
            }
            Tensor parts = concat(ops, losses);
            Tensor norm = Optimizer.norm(ops, gradients, parts, scale);
            Tensor all = ops.run(new Plain.Concat(), parts, norm); // before any update: this may run out of memory
            update(gradients, norm, scale, learningRate);
            return all;
        });
        long targets = batches.stream()
                .flatMap(List::stream)
                .mapToLong(TrainingExample::targets)
                .sum();
        return new Started(found, scale, targets);
    }

    /** Updates the parameters. Running out of memory here is a fatal error, since some weights may have changed. */
    private void update(List<Tensor> gradients, Tensor norm, double scale, double learningRate) {
        try {
            optimizer.update(ops, gradients, norm, scale, learningRate);
        } catch (MemoryException full) {
            throw new DeviceException("update of the weights: " + full.getMessage(), full);
        }
    }

    /** A step in progress on the device. Its report must be read before the next step. */
    public final class Started {
        private final Tensor found; // the parts of the loss, then the norm
        private final double scale;
        private final long targets;

        private Started(Tensor found, double scale, long targets) {
            this.found = found;
            this.scale = scale;
            this.targets = targets;
        }

        /** Waits for the device and reads all results of the step in one transfer. */
        public Report report() {
            float[] values = device.floats(found);
            step.release();
            double loss = 0;
            for (int i = 0; i < values.length - 1; i++) {
                loss += values[i] / scale;
            }
            float norm = values[values.length - 1];
            boolean finite = Float.isFinite(norm);
            if (finite) {
                optimizer.restore(optimizer.updates() + 1);
            }
            boolean scaledDown = lossScale.update(Double.isFinite(loss), finite);
            return new Report(loss, norm, targets, finite, scaledDown);
        }
    }

    /** Copies gradients that share memory, so that each can be accumulated into. */
    private Tensor[] own(List<Tensor> gradients) {
        Map<Memory, Set<Long>> taken = new IdentityHashMap<>();
        return gradients.stream()
                .map(gradient -> taken.computeIfAbsent(gradient.memory(), memory -> new HashSet<>())
                                .add(gradient.offset())
                        ? gradient
                        : ops.scale(gradient, 1))
                .toArray(Tensor[]::new);
    }

    /** Accumulates gradients in place. */
    private Tensor[] sum(List<Tensor> sums, List<Tensor> gradients) {
        for (int i = 0; i < gradients.size(); i++) {
            ops.runAll(new Training.Accumulate(), sums.get(i), gradients.get(i));
        }
        return new Tensor[0];
    }

    /** Sum of all loss weights, the divisor that makes the loss of a step a mean. */
    private static double divisor(List<List<TrainingExample>> batches) {
        double sum = 0;
        for (List<TrainingExample> batch : batches) {
            for (TrainingExample example : batch) {
                sum += (double) example.weight() * example.targets();
            }
        }
        if (!(sum > 0)) {
            throw new ShapeException(
                    "loss: none of " + batches.stream().mapToInt(List::size).sum() + " examples has a target token");
        }
        return sum;
    }

    /** Mean loss of examples, without tape and update. */
    public double loss(List<TrainingExample> examples) {
        double divisor = divisor(List.of(examples));
        return step.within(() -> {
            double sum = 0;
            for (float part : losses(examples, divisor)) {
                sum += part;
            }
            return sum;
        });
    }

    /** The loss of every token in nats; 0 for tokens that do not count. Examples follow one another. */
    public List<float[]> tokenLosses(List<TrainingExample> examples) {
        float[] all = step.within(() -> losses(examples, 1));
        List<float[]> each = new ArrayList<>();
        int at = 0;
        for (TrainingExample example : examples) {
            float[] own = new float[example.ids().length];
            for (int i = 1; i < own.length; i++) {
                own[i] = all[at + i - 1] / example.weight();
            }
            at += own.length;
            each.add(own);
        }
        return each;
    }

    private float[] losses(List<TrainingExample> examples, double divisor) {
        TrainBatch batch = TrainBatch.of(model, step, examples, divisor);
        Tensor hidden = step.within(() -> hidden(ops, batch));
        float[] losses = new float[Math.toIntExact(hidden.dim(0))];
        int rows = rows();
        for (int from = 0; from < losses.length; from += rows) {
            int begin = from;
            int count = Math.min(rows, losses.length - from);
            float[] part = step.within(() -> device.floats(ops.runAll(
                            new Fused.CrossEntropy(),
                            model.logits(ops, part(hidden, begin, count)),
                            part(batch.labels(), begin, count),
                            part(batch.weights(), begin, count))[0]));
            System.arraycopy(part, 0, losses, from, count);
        }
        return losses;
    }

    /** The gradient of every parameter by name, without an update. */
    public Map<String, float[]> gradients(List<TrainingExample> examples) {
        return step.within(() -> {
            List<Tensor> gradients = backward(ops, examples, divisor(List.of(examples)), 0, settings.checkpointing())
                    .gradients();
            Map<String, float[]> byName = new LinkedHashMap<>();
            for (String name : parameters.keySet()) {
                byName.put(name, device.floats(gradients.get(byName.size())));
            }
            return byName;
        });
    }

    /** Plans a step with the trainer's own checkpointing. */
    public NullOps.Plan plan(List<TrainingExample> examples) {
        return plan(examples, settings.checkpointing());
    }

    /** Plans a step with sequences that fill the context. */
    public NullOps.Plan plan(int sequences, int context, Checkpointing checkpointing) {
        return plan(
                Collections.nCopies(sequences, new TrainingExample(new int[context], new int[context])), checkpointing);
    }

    /** Plans the memory of a step with these examples as one batch, without weights and optimizer state. */
    public NullOps.Plan plan(List<TrainingExample> examples, Checkpointing checkpointing) {
        NullOps plan = new NullOps(device, precision, fallback);
        plan.scope().within(() -> {
            Pass pass = backward(plan, examples, 1, 0, checkpointing);
            Tensor norm = Optimizer.norm(plan, pass.gradients(), pass.losses(), lossScale.value());
            optimizer.update(plan, pass.gradients(), norm, lossScale.value(), 0);
            return norm;
        });
        return plan.plan();
    }

    /** Bytes of the optimizer state. */
    public long stateBytes() {
        return optimizer.stateBytes();
    }

    /** Number of times each operation ran as its expansion. */
    public Map<String, Long> fallbacks() {
        return ops.fallbacks();
    }

    /** Peak bytes of tensors alive at one time in any step so far. */
    public long peakBytes() {
        return step.peakBytes();
    }

    /** Bytes of optimizer state and steps reserved on the device. */
    public long reservedBytes() {
        return optimizer.reservedBytes() + step.reservedBytes();
    }

    public Map<String, Tensor> parameters() {
        return parameters;
    }

    /** The optimizer state by name, to be saved and restored with {@link #updates}. */
    public Map<String, Tensor> state() {
        return optimizer.state();
    }

    /** Number of parameter updates. */
    public int updates() {
        return optimizer.updates();
    }

    public void restore(int updates) {
        optimizer.restore(updates);
    }

    public LossScale lossScale() {
        return lossScale;
    }

    /** The partial sums of the loss [n], and the gradients of the parameters. */
    private record Pass(Tensor losses, List<Tensor> gradients) {}

    private static Tensor concat(Ops ops, List<Tensor> parts) {
        return parts.size() == 1 ? parts.getFirst() : ops.run(new Plain.Concat(), parts.toArray(Tensor[]::new));
    }

    /**
     * Forward and backward of one batch. The tape covers the layers up to the last hidden state; each chunk of rows of
     * the LM head has its own tape, which runs backward at once.
     */
    private Pass backward(
            Ops ops, List<TrainingExample> examples, double divisor, long number, Checkpointing checkpointing) {
        Scope scope = ops.scope();
        TrainBatch batch = TrainBatch.of(model, scope, examples, divisor);
        List<Tensor> all = List.copyOf(parameters.values());
        List<Tensor> headOnly = all.stream().filter(headParameters::contains).toList();
        Tape tape = new Tape(ops, all, checkpointing);
        Ops noisy = settings.dropout() == 0 && settings.neftune() == 0
                ? tape
                : new NeftuneOps(tape, batch.noise(tape.scope(), settings, hiddenSize, number));
        Tensor hidden = scope.within(() -> hidden(noisy, batch));
        int count = Math.toIntExact(hidden.dim(0));
        int rows = rows();
        List<Tensor> losses = new ArrayList<>();
        List<Tensor> pieces = new ArrayList<>();
        List<Tensor> headGradients = new ArrayList<>();
        for (int from = 0; from < count; from += rows) {
            int begin = from;
            int size = Math.min(rows, count - from);
            Tensor[] results = scope.within(() -> {
                Tensor leaf = part(hidden, begin, size);
                List<Tensor> leaves = new ArrayList<>(List.of(leaf));
                leaves.addAll(headOnly);
                Tape head = new Tape(ops, leaves, Checkpointing.OFF);
                Tensor loss = head.crossEntropy(
                        model.logits(head, leaf),
                        part(batch.labels(), begin, size),
                        part(batch.weights(), begin, size));
                List<Tensor> kept = new ArrayList<>(List.of(loss));
                kept.addAll(head.backward(loss));
                return kept.toArray(Tensor[]::new);
            });
            losses.add(results[0]);
            pieces.add(results[1]);
            for (int i = 0; i < headOnly.size(); i++) {
                if (begin == 0) {
                    headGradients.add(results[2 + i]);
                } else {
                    ops.runAll(new Training.Accumulate(), headGradients.get(i), results[2 + i]);
                }
            }
        }
        List<Tensor> gradients = new ArrayList<>(tape.backward(hidden, concat(ops, pieces)));
        for (int i = 0; i < headOnly.size(); i++) {
            int at = all.indexOf(headOnly.get(i));
            gradients.set(at, ops.add(gradients.get(at), headGradients.get(i)));
        }
        return new Pass(concat(ops, losses), gradients);
    }

    private Tensor hidden(Ops ops, TrainBatch batch) {
        return model.hiddenStates(ops, batch.batch(), KvCache.NONE);
    }

    /** Number of rows of logits in memory at one time. */
    private int rows() {
        int vocabulary = model.info().vocabSize();
        return Math.max(64, logits / vocabulary / 64 * 64);
    }

    /** A view of some rows of a matrix or elements of a vector. */
    private static Tensor part(Tensor x, long from, long count) {
        long width = x.shape().rank() == 1 ? 1 : x.dim(1);
        return x.view(from * width, x.shape().withFirst(count));
    }

    @Override
    public void close() {
        step.close();
        optimizer.close();
    }
}
