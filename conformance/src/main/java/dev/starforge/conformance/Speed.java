package dev.starforge.conformance;

import dev.starforge.conformance.Case.Input;
import dev.starforge.conformance.Case.Source;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Times each operation of a device and compares it with the limits of the machine: {@code ./dev conformance speed DEVICE}. Operations
 * with wrong results are not timed.
 *
 * <p>The limits are measured on the same device. Bandwidth is that of a copy (Concat of one tensor) of as many bytes as the operation
 * moves, so that both use the same level of the memory hierarchy; an operation that only reads may exceed 100 %. Peak arithmetic is
 * that of fused multiply-adds in registers on a CPU, and of a large matmul elsewhere. An operation is compared with the limit that it
 * is closer to.
 */
public final class Speed {
    private static final double SECONDS = 0.2;
    private static final int FMA_CHAIN = 16;

    private Speed() {}

    /** An operation to time, and its floating point operations: two per multiply-add. */
    record Job(Case of, double flops) {
        double bytes() {
            double bytes = 0;
            for (Spec spec : of.specs()) {
                bytes += spec.bytes();
            }
            for (Spec spec : of.op().outputs(of.specs())) {
                bytes += spec.bytes();
            }
            for (int i = 0; i < of.inputs().size(); i++) {
                bytes += of.op().mutates(i) ? of.specs()[i].bytes() : 0;
            }
            return bytes;
        }
    }

    public static void main(String[] args) throws IOException {
        if (args.length != 1) {
            System.err.println("usage: DEVICE");
            System.exit(2);
        }
        Selection selection = Selection.choose(args[0]);
        System.out.println(selection.backend().name() + ": " + selection.reason());
        if (!run(selection.backend(), jobs(), System.out)) {
            System.exit(1);
        }
    }

    /** Returns true if all results were correct. Skips operations that the device does not support. */
    static boolean run(Backend backend, List<Job> jobs, PrintStream out) throws IOException {
        List<Job> right = new ArrayList<>();
        try (Device device = backend.open(new DeviceOptions(0, 0, Files.createTempDirectory("starforge-kernels")));
                Device reference = ConformanceMain.reference()) {
            Conformance conformance = new Conformance(backend, device, device, reference);
            List<Job> asked = jobs.stream()
                    .filter(job -> device.supports(job.of.op(), job.of.specs()) != Support.NONE)
                    .toList();
            for (Job job : asked) {
                try {
                    conformance.run(Conformance.Check.VALUE, job.of);
                    right.add(job);
                } catch (ConformanceFailure wrong) {
                    out.println("not timed " + job.of + ": " + wrong.getMessage());
                }
            }
            if (!right.isEmpty()) {
                double flops = host(device) ? multiplyAdds() : products(device);
                out.printf("multiply-add %.1f GFLOP/s%n", flops / 1e9);
                for (Job job : right) {
                    double seconds = seconds(device, reference, job.of);
                    out.println(line(job, seconds, copied(device, job.bytes()), flops));
                }
            }
            return right.size() == asked.size();
        }
    }

    private static String line(Job job, double seconds, double copied, double flops) {
        boolean arithmetic = job.flops / flops > job.bytes() / copied;
        double rate = (arithmetic ? job.flops : job.bytes()) / seconds;
        double limit = arithmetic ? flops : copied;
        return "%9.3f ms %8.1f of %8.1f %-8s %4.0f %%  %s"
                .formatted(
                        seconds * 1e3,
                        rate / 1e9,
                        limit / 1e9,
                        arithmetic ? "GFLOP/s" : "GB/s",
                        100 * rate / limit,
                        job.of);
    }

    /** The median of repeated runs, after a warm-up of the same length. */
    static double seconds(Device device, Device reference, Case c) {
        try (Scope scope = new Scope(device)) {
            Tensor[] in = OpRunner.upload(scope, c.values(reference));
            Tensor[] out = Arrays.stream(c.op().outputs(c.specs()))
                    .map(scope::allocate)
                    .toArray(Tensor[]::new);
            return seconds(device, c.op(), in, out);
        }
    }

    static double seconds(Device device, Op op, Tensor[] in, Tensor[] out) {
        List<Long> times = new ArrayList<>();
        long begin = System.nanoTime();
        long warm = begin + (long) (SECONDS * 1e9);
        long end = warm + (long) (SECONDS * 1e9);
        while (System.nanoTime() < end || times.size() < 3) {
            device.synchronize();
            long start = System.nanoTime();
            device.run(op, in, out);
            device.synchronize();
            if (start >= warm || times.size() < 3) {
                times.add(System.nanoTime() - start);
            }
        }
        times.sort(null);
        return times.get(times.size() / 2) / 1e9;
    }

    /** Bytes per second, read and written, of a copy that moves this many in total. */
    private static double copied(Device device, double bytes) {
        try (Scope scope = new Scope(device)) {
            Tensor from = scope.allocate(Spec.f32(Math.max(1, (long) (bytes / 8))));
            Tensor to = scope.allocate(from.spec());
            device.run(new Plain.Fill(from.spec(), 1), new Tensor[0], new Tensor[] {from});
            return 2.0 * from.bytes() / seconds(device, new Plain.Concat(), new Tensor[] {from}, new Tensor[] {to});
        }
    }

    private static boolean host(Device device) {
        return device.name().equals("cpu") || device.name().equals("reference");
    }

    private static double products(Device device) {
        long n = 4096;
        try (Scope scope = new Scope(device)) {
            Tensor a = scope.allocate(Spec.f32(n, n));
            Tensor b = scope.allocate(Spec.f32(n, n));
            Tensor c = scope.allocate(Spec.f32(n, n));
            device.run(new Plain.Fill(a.spec(), 1), new Tensor[0], new Tensor[] {a});
            device.run(new Plain.Fill(b.spec(), 1), new Tensor[0], new Tensor[] {b});
            double seconds = seconds(device, new Plain.MatMul(false, true), new Tensor[] {a, b}, new Tensor[] {c});
            return 2.0 * n * n * n / seconds;
        }
    }

    /** Runs on all cores, each with an array that fits into its L1 cache; the compiler vectorizes the loop. */
    private static double multiplyAdds() {
        int cores = Runtime.getRuntime().availableProcessors();
        double[] rates = new double[cores];
        List<Thread> threads = new ArrayList<>();
        for (int core = 0; core < cores; core++) {
            int index = core;
            threads.add(Thread.ofPlatform().start(() -> rates[index] = multiplyAddsOfOneCore()));
        }
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException("speed: interrupted while measuring", interrupted);
            }
        }
        return Arrays.stream(rates).sum();
    }

    private static double multiplyAddsOfOneCore() {
        float[] x = new float[2048];
        double best = 0;
        long end = System.nanoTime() + (long) (2 * SECONDS * 1e9);
        while (System.nanoTime() < end) {
            long start = System.nanoTime();
            int rounds = 2000;
            for (int round = 0; round < rounds; round++) {
                chain(x, 0.999f, 0.5f);
            }
            best = Math.max(best, 2.0 * FMA_CHAIN * x.length * rounds / ((System.nanoTime() - start) / 1e9));
        }
        return best;
    }

    private static void chain(float[] x, float a, float b) {
        for (int i = 0; i < x.length; i++) {
            float v = x[i];
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            v = Math.fma(v, a, b);
            x[i] = v;
        }
    }

    /** The operations of a decode step and of a training step, at the size of a small layer. */
    static List<Job> jobs() {
        int c = 1024; // channels
        int t = 256; // tokens
        List<Job> jobs = new ArrayList<>();
        for (DType type : List.of(DType.F32, DType.BF16)) {
            jobs.add(product(1, 4 * c, c, type));
            jobs.add(product(64, c, c, type));
        }
        jobs.add(product(t, c, c, DType.F32));
        for (DType type : List.of(DType.Q8_0, DType.Q4_K)) {
            jobs.add(product(1, 4 * c, c, type));
            jobs.add(product(64, c, c, type));
            jobs.add(job(2.0 * 64 * c * c, new Plain.MatMul(false, false), drawn(DType.F32, 64, c), drawn(type, c, c)));
        }
        for (DType type : List.of(DType.F32, DType.BF16)) {
            jobs.add(experts(8, 1, c, type));
            jobs.add(experts(8, t / 8, c, type));
        }
        jobs.add(job(0, new Routing.Route(8, 8, 4, 2), drawn(DType.F32, t, 256)));
        Input x = drawn(DType.F32, t, c);
        Input row = drawn(DType.F32, c);
        jobs.add(job(t * c, new Plain.Add(), x, x));
        jobs.add(job(t * c, new Plain.Mul(), x, row));
        jobs.add(job(8.0 * t * c, new Plain.Map(Fn.GELU_TANH), x));
        jobs.add(job(0, new Plain.Permute(List.of(1, 0)), x));
        jobs.add(job(t * c, new Plain.Sum(Plain.Sum.Over.LEADING), x));
        jobs.add(job(8.0 * t * c, new Plain.Softmax(), x));
        jobs.add(job(t * c, new Plain.Argmax(), x));
        jobs.add(job(2.0 * t * c, new Plain.Norm(), x));
        Input square = new Input(x.spec(), new Source.Drawn((i, n) -> n * n), false);
        Input rate = new Input(Spec.f32(3), new Source.Drawn((i, n) -> 0.1), false);
        Input one = new Input(Spec.f32(1), new Source.Drawn((i, n) -> 1), false);
        jobs.add(job(16.0 * t * c, new Plain.AdamW(0.9, 0.999, 1e-8, 0.1, 1), x, x, square, x, one, rate));
        Input quants = new Input(
                Training.AdamW8.quants(x.spec().shape()),
                listed(t * c / 4, 1 << 30).source(),
                false);
        Input scales = new Input(Training.AdamW8.scales(x.spec().shape()), new Source.Drawn((i, n) -> n * n), false);
        jobs.add(job(
                24.0 * t * c, new Training.AdamW8(0.9, 0.999, 1e-8, 0.1, 1), x, quants, quants, scales, x, one, rate));
        Input tokens = listed(t, t);
        Input key = listed(2, 2);
        jobs.add(job(0, new Training.Dropout(0.05f, 1), x, tokens, tokens, key));
        jobs.add(job(8.0 * t * c, new Fused.LayerNorm(1e-5f), x, row, row));
        jobs.add(job(5.0 * t * c, new Fused.RmsNorm(1e-5f), x, row));
        jobs.add(job(9.0 * t * c, new Fused.Gated(Fn.SILU), x, x));
        Input labels = listed(t, c);
        jobs.add(job(8.0 * t * c, new Fused.CrossEntropy(), x, labels, drawn(DType.F32, t)));
        jobs.add(job(6.0 * t * c, new Fused.Rope(1, false), drawn(DType.F32, t, 16, 64), labels, drawn(DType.F32, 32)));
        jobs.add(lora(1, 8, 16, c));
        jobs.add(lora(64, 8, 16, c));
        jobs.add(attention(1, 1023, 16, 4, 64));
        jobs.add(attention(128, 0, 16, 4, 64));
        return jobs;
    }

    static Job product(long m, long n, long k, DType type) {
        return job(2.0 * m * n * k, new Plain.MatMul(false, true), drawn(DType.F32, m, k), drawn(type, n, k));
    }

    /** All experts have the same number of rows. */
    private static Job experts(int experts, int rows, long c, DType type) {
        List<Integer> offsets =
                IntStream.rangeClosed(0, experts).mapToObj(e -> e * rows).toList();
        return job(
                2.0 * experts * rows * c * c,
                new Routing.ExpertMatMul(true),
                drawn(DType.F32, (long) experts * rows, c),
                drawn(type, experts, c, c),
                new Input(Spec.i32(experts + 1), new Source.Listed(offsets), false));
    }

    /** Rows use the adapters in turn. */
    private static Job lora(int rows, int adapters, int rank, long c) {
        return job(
                4.0 * rows * rank * c,
                new Adapters.Lora(),
                drawn(DType.F32, rows, c),
                drawn(DType.F32, rows, c),
                drawn(DType.F32, adapters, rank, c),
                drawn(DType.F32, adapters, c, rank),
                drawn(DType.F32, adapters),
                listed(rows, adapters));
    }

    private static Job attention(int queries, int cached, int heads, int kvHeads, int d) {
        RaggedBatch ragged = RaggedBatch.of(16, 0, new int[] {queries, cached});
        List<Input> inputs = new ArrayList<>(List.of(
                drawn(DType.F32, queries, heads, d),
                drawn(DType.F32, ragged.rows(), kvHeads, d),
                drawn(DType.F32, ragged.rows(), kvHeads, d)));
        inputs.addAll(ragged.layout());
        double pairs = queries * (cached + (queries + 1) / 2.0);
        return job(4 * pairs * heads * d, new Fused.Attention(0.125f, 0, 16), inputs.toArray(Input[]::new));
    }

    private static Job job(double flops, Op op, Input... inputs) {
        return new Job(new Case(op, List.of(inputs), ""), flops);
    }

    private static Input drawn(DType type, long... dims) {
        return new Input(new Spec(type, Shape.of(dims)), new Source.Drawn((i, n) -> n), false);
    }

    private static Input listed(int count, int below) {
        List<Integer> values = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            values.add(i * 7 % below);
        }
        return new Input(Spec.i32(count), new Source.Listed(values), false);
    }
}
