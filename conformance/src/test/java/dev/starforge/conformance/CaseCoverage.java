package dev.starforge.conformance;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * A subset of conformance cases that launches every kernel variant that all of them launch, and has every kind of input shape of
 * every operation: see {@link #shapes}. Dry runs on a device that only records launches find the variants of a case.
 *
 * @param cases the subset, in the order of the full set
 * @param variants what the subset launches, and also the full set
 * @param outOf the number of cases of the full set
 */
record CaseCoverage(List<Case> cases, Set<Variant> variants, int outOf) {
    private static final int VECTOR = 4;
    private static final int SIMD = 32;
    private static final int GROUP = 256;

    /** All of these cases. */
    static CaseCoverage all(EmulatedBackend backend, List<Case> cases) {
        Set<Variant> variants = new HashSet<>();
        cases.forEach(c -> variants.addAll(launches(backend, c)));
        return new CaseCoverage(cases, variants, cases.size());
    }

    /** Adds cases, those with the fewest elements first, that launch a variant or have a shape that the cases before them do not. */
    static CaseCoverage smallest(EmulatedBackend backend, List<Case> all) {
        Set<Variant> variants = new HashSet<>();
        Set<String> shapes = new HashSet<>();
        Set<Case> chosen = new HashSet<>();
        for (Case c : all.stream()
                .sorted(Comparator.comparingLong(CaseCoverage::elements))
                .toList()) {
            boolean addsVariant = variants.addAll(launches(backend, c));
            boolean addsShape = shapes.addAll(shapes(c));
            if (addsVariant || addsShape) {
                chosen.add(c);
            }
        }
        return new CaseCoverage(all.stream().filter(chosen::contains).toList(), variants, all.size());
    }

    private static long elements(Case c) {
        return Arrays.stream(c.specs()).mapToLong(spec -> spec.shape().size()).sum();
    }

    /**
     * The kind of shape of each input: its rank; empty, one column, one row, or a row length that is not a multiple of a vector or
     * of a simdgroup; and whether a row is longer than a group.
     */
    private static Set<String> shapes(Case c) {
        Set<String> shapes = new HashSet<>();
        Spec[] specs = c.specs();
        for (int i = 0; i < specs.length; i++) {
            Shape shape = specs[i].shape();
            long last = shape.rank() == 0 ? 1 : shape.last();
            shapes.add(kind(c.op()) + " " + i + " " + shape.rank() + " " + size(shape, last) + " " + (last > GROUP));
        }
        return shapes;
    }

    /** The name of an operation, with its function if it has one: kernels take that as an argument, so it makes no variant. */
    private static String kind(Op op) {
        return op instanceof Plain.Map || op instanceof Plain.MapGrad || op instanceof Fused.Gated
                ? op.toString()
                : op.name();
    }

    private static String size(Shape shape, long last) {
        if (shape.size() == 0) {
            return "empty";
        }
        if (last == 1 || shape.size() == last) {
            return last == 1 ? "one column" : "one row";
        }
        return last % VECTOR != 0 ? "partial vector" : last % SIMD != 0 ? "partial simdgroup" : "whole simdgroups";
    }

    /** The variants that the checks of {@link Conformance} launch for a case. */
    static Set<Variant> launches(EmulatedBackend backend, Case c) {
        Set<Variant> launched = new LinkedHashSet<>();
        try (Device device = backend.openDry(launched::add)) {
            Support support = backend.supports(c.op(), c.specs());
            HostTensor[] in = Arrays.stream(c.specs()).map(HostTensor::new).toArray(HostTensor[]::new);
            readBack(device, in);
            if (support == Support.NONE) {
                return launched;
            }
            boolean expandable = c.op() instanceof Fused && isFinite(c);
            if (support == Support.NATIVE) {
                OpRunner.eager(device, Fallback.FORBIDDEN, c.op(), in);
                runGuarded(device, c.op(), in, Conformance.ALIGNED);
                runGuarded(device, c.op(), in, Conformance.SHIFTED);
            }
            if (expandable) {
                Fallback expansion = new Fallback(true, Set.of(c.op().getClass()), line -> {});
                OpRunner.eager(device, expansion, c.op(), in);
            }
            if (!c.wanted().isEmpty()) {
                HostTensor cotangent = new HostTensor(c.op().outputs(c.specs())[0]);
                Precision precision = Precision.of(TypedCases.of(c));
                Conformance.taped(device, c, in, cotangent, precision, false);
                if (expandable) {
                    Conformance.taped(device, c, in, cotangent, precision, true);
                }
            }
        }
        return launched;
    }

    private static void readBack(Device device, HostTensor[] in) {
        try (Scope scope = new Scope(device)) {
            for (Tensor tensor : OpRunner.upload(scope, in)) {
                if (tensor.dtype().isQuantized()) {
                    OpRunner.download(device, tensor);
                }
            }
        }
    }

    private static void runGuarded(Device device, Op op, HostTensor[] in, int[] shifts) {
        try (Scope scope = new Scope(device)) {
            List<Tensor> inputs = new ArrayList<>();
            for (int i = 0; i < in.length; i++) {
                inputs.add(GuardedTensor.input(scope, "input", in[i], shifts[i % shifts.length])
                        .tensor());
            }
            List<Tensor> outputs = new ArrayList<>();
            for (Spec spec : op.outputs(OpRunner.specs(in))) {
                int shift = shifts[(in.length + outputs.size()) % shifts.length];
                outputs.add(GuardedTensor.output(scope, "output", spec, shift).tensor());
            }
            device.run(op, inputs.toArray(Tensor[]::new), outputs.toArray(Tensor[]::new));
        }
    }

    /** Returns false if an input has infinities or NaN, at positions that do not depend on the random number. */
    private static boolean isFinite(Case c) {
        return c.inputs().stream().allMatch(input -> {
            if (!(input.source() instanceof Case.Source.Drawn drawn)) {
                return true;
            }
            HostTensor values = HostTensor.of(input.spec(), i -> drawn.draw().value(i, 1));
            return IntStream.range(0, values.size()).allMatch(i -> Double.isFinite(values.at(i)));
        });
    }

    @Override
    public String toString() {
        long kernels = variants.stream().map(Variant::kernel).distinct().count();
        return "%,d of %,d cases; %d of %d kernels, %d of %d variants"
                .formatted(cases.size(), outOf, kernels, kernels, variants.size(), variants.size());
    }
}
