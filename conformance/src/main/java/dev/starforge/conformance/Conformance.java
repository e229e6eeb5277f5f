package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Tape;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Checks the operations of a device against the reference backend, which computes in double, within {@link Tolerances}. As in ggml's
 * {@code test-backend-ops}, the cases are independent of backends, and a backend needs no tests of its own for its operations.
 */
final class Conformance {
    /** Step of the finite differences. Inputs are of order one. */
    private static final double STEP = 0x1p-6;

    /** Offsets from aligned addresses in elements; they differ between the tensors of a case. */
    static final int[] ALIGNED = {0};

    static final int[] SHIFTED = {1, 3, 5, 7};

    private static final int COTANGENT = 1000;
    private static final int DIRECTION = 2000;

    private final Backend backend;
    private final Device device;
    private final Device twin;
    private final Device reference;
    private @Nullable Prepared prepared;
    private HostTensor @Nullable [] own;

    /**
     * @param backend the backend of the devices
     * @param device the device under test
     * @param twin a device of the same backend that must compute the same bits, on a CPU with a different number of threads; may be
     *     the same device
     * @param reference computes the expected values
     */
    Conformance(Backend backend, Device device, Device twin, Device reference) {
        this.backend = backend;
        this.device = device;
        this.twin = twin;
        this.reference = reference;
    }

    /** The kinds of checks. */
    enum Check {
        /** Values are within tolerances, all outputs are written, and nothing else is. */
        VALUE,
        /** Unaligned tensors work, and every run, replay and the twin give the same bits. */
        REPEAT,
        /** The declared support is correct, forbidden fallbacks name the operation, and weights read back as written. */
        SUPPORT,
        /** The kernel matches the operation's expansion on the same device. */
        EXPANSION,
        /** The tape's gradient: of the reference against finite differences, of other devices against the reference. */
        GRADIENT
    }

    /** The checks that apply to a case on this device. */
    List<Check> checks(Case c) {
        List<Check> checks = new ArrayList<>(List.of(Check.SUPPORT));
        if (device.supports(c.op(), c.specs()) == Support.NONE) {
            return checks;
        }
        // An expansion multiplies masked values by zero, so only a kernel can ignore a NaN there.
        boolean expandable = c.op() instanceof Fused && finite(prepared(c).in);
        if (supported(c) || expandable) {
            checks.add(Check.VALUE);
            checks.add(Check.REPEAT);
        }
        if (supported(c) && expandable) {
            checks.add(Check.EXPANSION);
        }
        if (!c.wanted().isEmpty()) {
            checks.add(Check.GRADIENT);
        }
        return checks;
    }

    /** Runs one check; throws {@link ConformanceFailure} if the device does not pass. */
    void run(Check check, Case c) {
        try {
            switch (check) {
                case VALUE -> value(c);
                case REPEAT -> repeat(c);
                case SUPPORT -> support(c);
                case EXPANSION -> expansion(c);
                case GRADIENT -> gradient(c);
            }
        } catch (RuntimeException thrown) {
            throw new ConformanceFailure("threw " + thrown, thrown);
        }
    }

    private boolean supported(Case c) {
        return device.supports(c.op(), c.specs()) == Support.NATIVE;
    }

    private Prepared prepared(Case c) {
        if (prepared == null || prepared.of != c) {
            HostTensor[] in = c.values(reference);
            HostTensor[] expected = OpRunner.plain(reference, c.op(), in);
            prepared = new Prepared(c, in, expected, Tolerances.errors(reference, c.op(), in, expected));
            own = null;
        }
        return prepared;
    }

    /** The results of the device without fallbacks. */
    private HostTensor[] own(Case c) {
        HostTensor[] in = prepared(c).in;
        if (own == null) {
            own = OpRunner.eager(device, Fallback.FORBIDDEN, c.op(), in);
        }
        return own;
    }

    private static boolean finite(HostTensor... values) {
        for (HostTensor value : values) {
            for (int i = 0; i < value.size(); i++) {
                if (!Double.isFinite(value.at(i))) {
                    return false;
                }
            }
        }
        return true;
    }

    private void value(Case c) {
        Prepared known = prepared(c);
        if (supported(c)) {
            known.compare("aligned", guarded(device, c.op(), known.in, ALIGNED, 1)[0], 1);
        } else {
            known.compare("expanded", OpRunner.eager(device, Fallback.QUIET, c.op(), known.in), Tolerances.EXPANSION);
        }
    }

    private void repeat(Case c) {
        HostTensor[] in = prepared(c).in;
        if (!supported(c)) {
            HostTensor[] once = OpRunner.eager(device, Fallback.QUIET, c.op(), in);
            same("the second run", once, OpRunner.eager(device, Fallback.QUIET, c.op(), in));
            same(twin.name() + " opened a second time", once, OpRunner.eager(twin, Fallback.QUIET, c.op(), in));
            return;
        }
        HostTensor[][] runs = guarded(device, c.op(), in, SHIFTED, records() ? 4 : 2);
        same("the second run", runs[0], runs[1]);
        for (int run = 2; run < runs.length; run++) {
            same(run == 2 ? "the recorded run" : "the replayed run", runs[0], runs[run]);
        }
        same(twin.name() + " opened a second time", own(c), OpRunner.plain(twin, c.op(), in));
        prepared(c).compare("shifted", runs[0], 1);
    }

    /** Returns true if the device captures and replays steps. Otherwise a third run tests no more than the second. */
    private boolean records() {
        int[] runs = {0};
        try (Scope scope = new Scope(device)) {
            Spec one = new Spec(DType.F32, Shape.of(1));
            Tensor[] to = {scope.allocate(one)};
            Object key = new Object();
            for (int i = 0; i < 3; i++) {
                device.replay(key, () -> {
                    runs[0]++;
                    device.run(new Plain.Fill(one, 1), new Tensor[0], to);
                });
            }
            device.forget(key);
        }
        return runs[0] < 3;
    }

    /** The results of several runs on the same guarded tensors: the first eagerly, the others as a step. */
    private static HostTensor[][] guarded(Device device, Op op, HostTensor[] in, int[] shifts, int runs) {
        try (Scope scope = new Scope(device)) {
            Spec[] specs = op.outputs(OpRunner.specs(in));
            GuardedTensor[] inputs = new GuardedTensor[in.length];
            for (int i = 0; i < in.length; i++) {
                inputs[i] = GuardedTensor.input(scope, "input " + i, in[i], shifts[i % shifts.length]);
            }
            GuardedTensor[] outputs = new GuardedTensor[specs.length];
            for (int i = 0; i < specs.length; i++) {
                outputs[i] =
                        GuardedTensor.output(scope, "output " + i, specs[i], shifts[(in.length + i) % shifts.length]);
            }
            Tensor[] from = tensors(inputs);
            Tensor[] to = tensors(outputs);
            HostTensor[][] results = new HostTensor[runs][];
            Object key = new Object();
            for (int run = 0; run < results.length; run++) {
                for (GuardedTensor guarded : inputs) {
                    guarded.restore();
                }
                for (GuardedTensor guarded : outputs) {
                    guarded.restore();
                }
                if (run == 0) {
                    device.run(op, from, to);
                } else {
                    device.replay(key, () -> device.run(op, from, to));
                }
                results[run] = results(op, inputs, outputs);
            }
            device.forget(key);
            return results;
        }
    }

    private static Tensor[] tensors(GuardedTensor[] guarded) {
        Tensor[] tensors = new Tensor[guarded.length];
        for (int i = 0; i < tensors.length; i++) {
            tensors[i] = guarded[i].tensor();
        }
        return tensors;
    }

    private static HostTensor[] results(Op op, GuardedTensor[] inputs, GuardedTensor[] outputs) {
        List<HostTensor> results = new ArrayList<>();
        for (GuardedTensor output : outputs) {
            results.add(output.written());
        }
        for (int i = 0; i < inputs.length; i++) {
            if (op.mutates(i)) {
                results.add(inputs[i].read());
            } else {
                inputs[i].unchanged();
            }
        }
        return results.toArray(HostTensor[]::new);
    }

    private void support(Case c) {
        Support declared = device.supports(c.op(), c.specs());
        if (declared != backend.supports(c.op(), c.specs())) {
            throw new ConformanceFailure(
                    "the device declares " + declared + ", its backend " + backend.supports(c.op(), c.specs()));
        }
        HostTensor[] in = prepared(c).in;
        boolean quantized =
                Arrays.stream(c.specs()).anyMatch(spec -> spec.dtype().isQuantized());
        if (quantized) {
            readBack(in);
        }
        if (declared == Support.NONE && quantized) {
            refused(c, Fallback.QUIET, in);
            return;
        }
        if (!(c.op() instanceof Fused)) {
            if (declared != Support.NATIVE) {
                throw new ConformanceFailure("a plain operation has no expansion, so every device runs it itself");
            }
            own(c);
            return;
        }
        if (declared == Support.NATIVE) {
            own(c);
        } else {
            refused(c, Fallback.FORBIDDEN, in);
        }
        refused(c, new Fallback(false, Set.of(c.op().getClass()), line -> {}), in);
    }

    /** Weights read back as written, in any layout, even if the device does not compute with them. */
    private void readBack(HostTensor[] in) {
        try (Scope scope = new Scope(device)) {
            Tensor[] tensors = OpRunner.upload(scope, in);
            for (int i = 0; i < in.length; i++) {
                if (!in[i].bytes().equals(OpRunner.download(device, tensors[i]).bytes())) {
                    throw new ConformanceFailure("input " + i + " " + in[i].spec() + ": is not read as it was written");
                }
            }
        }
    }

    private void refused(Case c, Fallback fallback, HostTensor[] in) {
        try {
            OpRunner.eager(device, fallback, c.op(), in);
        } catch (DeviceException refusal) {
            if (!String.valueOf(refusal.getMessage()).startsWith(c.op().name() + ":")) {
                throw new ConformanceFailure(
                        "the refusal does not name the operation: " + refusal.getMessage(), refusal);
            }
            return;
        }
        throw new ConformanceFailure("ran, although it must be refused");
    }

    private void expansion(Case c) {
        Prepared known = prepared(c);
        HostTensor[] own = own(c);
        List<String> log = new ArrayList<>();
        Fallback off = new Fallback(true, Set.of(c.op().getClass()), log::add);
        double[][] errors = c.op() instanceof Fused.AttentionGrad op
                ? Tolerances.expansionErrors(reference, op, known.in, known.expected)
                : known.errors;
        new Prepared(c, known.in, own, errors)
                .compare("expansion", OpRunner.eager(device, off, c.op(), known.in), 1 + Tolerances.EXPANSION);
        if (log.size() != 1) {
            throw new ConformanceFailure("one operation fell back, and the log has " + log.size() + " lines: " + log);
        }
    }

    private void gradient(Case c) {
        if (device.name().equals(reference.name()) && TypedCases.of(c) == DType.F32) {
            finiteDifferences(c);
        } else {
            likeTheReference(c);
        }
    }

    /**
     * Along a random direction v for each input, and with a random cotangent r, sum(gradient * v) must be the slope of
     * sum(r * y). The slope comes from four evaluations at steps h and h/2 (Richardson). The reference rounds y to float32, so a
     * second-order formula would trade rounding against truncation; at fourth order both are small with a step of 1/64. The
     * tolerance is the sum of three errors:
     *
     * <ul>
     *   <li>rounding of y: u * |r * y| for every element, independent, divided by the step; a factor 6 covers the weights of the
     *       formula and three standard deviations;
     *   <li>truncation: less than the difference between the fourth-order and the second-order result;
     *   <li>rounding of the gradient: {@link Tolerances#gradient}.
     * </ul>
     *
     * <p>If the tolerance is not well below the slope, the check could not fail, so the case fails. For a fused operation both its own
     * gradient rule and the tape's gradient of its expansion are checked. Only the reference is checked this way; other devices are
     * compared with it.
     */
    private void finiteDifferences(Case c) {
        Prepared known = prepared(c);
        HostTensor[] in = known.in;
        HostTensor y = known.expected[0];
        HostTensor r = cotangent(c, y);
        double noise = 0;
        for (int i = 0; i < y.size(); i++) {
            noise += r.at(i) == 0 ? 0 : r.at(i) * r.at(i) * y.at(i) * y.at(i);
        }
        double rounding = 6 * Tolerances.U * Math.sqrt(noise) / STEP;
        List<HostTensor> gradients = taped(device, c, in, r, Precision.FLOAT32, false);
        List<HostTensor> defined =
                c.op() instanceof Fused && finite(in) ? taped(device, c, in, r, Precision.FLOAT32, true) : gradients;
        for (int w = 0; w < gradients.size(); w++) {
            int input = c.wanted().get(w);
            HostTensor x = in[input];
            HostTensor v = HostTensor.of(
                    x.spec(), i -> Double.isFinite(x.at(i)) ? Case.bell(c.seed(), DIRECTION + input, i) : 0);
            Move coarse = move(c, in, input, v, r, STEP);
            Move fine = move(c, in, input, v, r, STEP / 2);
            double numeric = fourthOrder(coarse.rise, fine.rise);
            double truncation = Math.abs(fine.rise / STEP - numeric);
            for (HostTensor gradient : List.of(gradients.get(w), defined.get(w))) {
                double taped = fourthOrder(coarse.along(gradient), fine.along(gradient));
                double size = coarse.size(gradient);
                double allowed = rounding + truncation + Tolerances.gradient(DType.F32) * size;
                if (size > 0 && !(allowed < 0.02 * size)) {
                    throw new ConformanceFailure("input " + input + ": finite differences are known to " + allowed
                            + " only, which says nothing of a gradient of size " + size);
                }
                if (!(Math.abs(taped - numeric) <= allowed)) {
                    throw new ConformanceFailure((gradient == gradients.get(w) ? "" : "expansion, ") + "input " + input
                            + ": the gradient along a random direction is " + taped + ", finite differences say "
                            + numeric + " within " + allowed);
                }
            }
        }
    }

    /** Compares gradients in norm with the reference's float32 gradients on the same values, which finite differences verify. */
    private void likeTheReference(Case c) {
        DType type = TypedCases.of(c);
        HostTensor[] in = prepared(c).in;
        HostTensor r = cotangent(c, prepared(c).expected[0]);
        Case wide = type == DType.F32 ? c : TypedCases.as(DType.F32, c);
        HostTensor[] wideIn = in.clone();
        for (int i = 0; i < in.length; i++) {
            HostTensor from = in[i];
            if (!wide.specs()[i].equals(from.spec())) {
                wideIn[i] = HostTensor.of(wide.specs()[i], from::at);
            }
        }
        List<HostTensor> expected = taped(
                reference,
                wide,
                wideIn,
                HostTensor.of(new Spec(DType.F32, r.shape()), r::at),
                Precision.FLOAT32,
                false);
        for (boolean expand : c.op() instanceof Fused && finite(in) ? new boolean[] {false, true} : new boolean[1]) {
            List<HostTensor> actual = taped(device, c, in, r, Precision.of(type), expand);
            for (int w = 0; w < actual.size(); w++) {
                double difference = 0;
                double size = 0;
                for (int i = 0; i < actual.get(w).size(); i++) {
                    difference += Math.pow(actual.get(w).at(i) - expected.get(w).at(i), 2);
                    size += Math.pow(expected.get(w).at(i), 2);
                }
                double allowed = Tolerances.gradient(type) * Math.sqrt(size);
                if (!(Math.sqrt(difference) <= allowed)) {
                    throw new ConformanceFailure((expand ? "expansion, " : "") + "input "
                            + c.wanted().get(w) + ": the gradient is " + Math.sqrt(difference)
                            + " away from the reference's, whose norm is " + Math.sqrt(size) + "; allowed are "
                            + allowed);
                }
            }
        }
    }

    private static HostTensor cotangent(Case c, HostTensor y) {
        return HostTensor.of(y.spec(), i -> Double.isFinite(y.at(i)) ? Case.bell(c.seed(), COTANGENT, i) : 0);
    }

    /** The slope from the rises of two central differences: 2hD + ch^3 and hD + ch^3 / 8. */
    private static double fourthOrder(double coarse, double fine) {
        return (8 * fine - coarse) / (6 * STEP);
    }

    /**
     * One central difference.
     *
     * @param moved the change of each element in float32
     * @param rise the change of sum(r * y)
     */
    private record Move(double[] moved, double rise) {
        double along(HostTensor gradient) {
            double sum = 0;
            for (int i = 0; i < moved.length; i++) {
                sum += gradient.at(i) * moved[i];
            }
            return sum;
        }

        double size(HostTensor gradient) {
            double sum = 0;
            for (int i = 0; i < moved.length; i++) {
                sum += Math.pow(gradient.at(i) * moved[i], 2);
            }
            return Math.sqrt(sum) / (2 * STEP);
        }
    }

    static List<HostTensor> taped(
            Device device, Case c, HostTensor[] in, HostTensor r, Precision precision, boolean expand) {
        try (Scope scope = new Scope(device)) {
            EagerOps ops = device.ops(scope, precision, Fallback.QUIET);
            Tensor[] inputs = OpRunner.upload(scope, in);
            Tensor d = OpRunner.upload(scope, r)[0];
            Tape tape = new Tape(ops, c.wanted().stream().map(i -> inputs[i]).toList(), Checkpointing.OFF);
            Tensor y = expand ? ((Fused) c.op()).expand(tape, inputs)[0] : tape.run(c.op(), inputs);
            return tape.backward(y, d).stream()
                    .map(gradient -> OpRunner.download(device, gradient))
                    .toList();
        }
    }

    private Move move(Case c, HostTensor[] in, int input, HostTensor v, HostTensor r, double step) {
        HostTensor x = in[input];
        HostTensor up = HostTensor.of(x.spec(), i -> x.at(i) + step * v.at(i));
        HostTensor down = HostTensor.of(x.spec(), i -> x.at(i) - step * v.at(i));
        double[] moved = new double[x.size()];
        for (int i = 0; i < moved.length; i++) {
            moved[i] = v.at(i) == 0 ? 0 : up.at(i) - down.at(i);
        }
        return new Move(moved, against(c, in, input, up, r) - against(c, in, input, down, r));
    }

    private double against(Case c, HostTensor[] in, int input, HostTensor value, HostTensor r) {
        HostTensor[] changed = in.clone();
        changed[input] = value;
        HostTensor y = OpRunner.plain(reference, c.op(), changed)[0];
        double sum = 0;
        for (int i = 0; i < y.size(); i++) {
            sum += r.at(i) == 0 ? 0 : r.at(i) * y.at(i);
        }
        return sum;
    }

    private static void same(String which, HostTensor[] expected, HostTensor[] actual) {
        for (int k = 0; k < expected.length; k++) {
            int at = expected[k].firstDifference(actual[k]);
            if (at >= 0) {
                throw new ConformanceFailure(which + ": result " + k + " " + expected[k].spec() + ": element " + at
                        + " is " + actual[k].at(at) + ", the first run gave " + expected[k].at(at));
            }
        }
    }

    /** The absolute error; infinite if only one value is finite, or for different infinities. */
    private static double error(HostTensor expected, HostTensor actual, int i) {
        double e = expected.at(i);
        double a = actual.at(i);
        if (expected.bits(i) == actual.bits(i) || Double.isNaN(e) && Double.isNaN(a)) {
            return 0;
        }
        return Double.isFinite(e) && Double.isFinite(a) ? Math.abs(e - a) : Double.POSITIVE_INFINITY;
    }

    /** The data of a case that all its checks share. */
    private record Prepared(Case of, HostTensor[] in, HostTensor[] expected, double[][] errors) {
        void compare(String which, HostTensor[] actual, double times) {
            for (int k = 0; k < expected.length; k++) {
                int wrong = 0;
                int worst = -1;
                double most = -1;
                for (int i = 0; i < expected[k].size(); i++) {
                    double error = error(expected[k], actual[k], i);
                    if (error > times * errors[k][i]) {
                        wrong++;
                        if (error > most) {
                            most = error;
                            worst = i;
                        }
                    }
                }
                if (wrong > 0) {
                    throw new ConformanceFailure(which + ": result " + k + " " + expected[k].spec() + ": " + wrong
                            + " elements differ; element " + worst + " is " + actual[k].at(worst) + ", expected "
                            + expected[k].at(worst) + " within " + times * errors[k][worst]);
                }
            }
        }
    }
}
