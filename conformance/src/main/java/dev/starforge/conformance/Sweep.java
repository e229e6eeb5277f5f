package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Plain;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/**
 * Times the matmuls of a decode step by batch size: {@code ./dev conformance sweep DEVICE}. Up to 64 rows of x are multiplied with a
 * matrix of a large layer in several weight formats; wrong results are not timed. One captured step multiplies with several copies of
 * the matrix, more than the device's cache holds, so that neither caching nor launch latency is measured.
 */
public final class Sweep {
    private static final long COLUMNS = 12_288;
    private static final long TERMS = 3_072;
    private static final int COPIES = 8;
    private static final int REPEATS = 15;
    private static final int CHECKED = 16;

    /** bf16 rounds stored results by at most 2^-9, and dequantized weights once more. */
    private static final double BOUND = 0x1p-7;

    private static final List<Integer> ROWS = List.of(1, 8, 16, 32, 64);
    private static final List<DType> FORMATS = List.of(DType.BF16, DType.Q8_0, DType.Q4_0, DType.NF4, DType.Q4_K);

    private Sweep() {}

    public static void main(String[] args) throws IOException {
        if (args.length != 1) {
            System.err.println("usage: DEVICE");
            System.exit(2);
        }
        Selection selection = Selection.choose(args[0]);
        System.out.println(selection.backend().name() + ": " + selection.reason());
        try (Device device =
                selection.backend().open(new DeviceOptions(0, 0, Files.createTempDirectory("starforge-kernels")))) {
            run(device, COLUMNS, TERMS, System.out);
        }
    }

    /** Prints for each format and number of rows: microseconds, weight bandwidth relative to a copy, and the error. */
    static void run(Device device, long columns, long terms, PrintStream out) {
        double[] bells = new Random(1).doubles(1 << 16, -1, 1).toArray();
        double most = copied(device, COPIES * columns * terms);
        out.printf("a copy moves %.0f GB/s; [M, %d] times [%d, %d], bf16%n", most / 1e9, terms, columns, terms);
        for (DType format : FORMATS) {
            try (Scope scope = new Scope(device)) {
                HostTensor w = HostTensor.of(new Spec(format, Shape.of(columns, terms)), i -> bells[i * 31 & 0xffff]);
                List<Tensor> copies = new ArrayList<>();
                for (int i = 0; i < COPIES; i++) {
                    copies.add(OpRunner.upload(scope, w)[0]);
                }
                for (int rows : ROWS) {
                    HostTensor x = HostTensor.of(
                            new Spec(DType.BF16, Shape.of(rows, terms)), i -> bells[(i * 17 + rows) & 0xffff]);
                    line(device, copies, w, x, most, out);
                }
            }
        }
    }

    private static void line(
            Device device, List<Tensor> copies, HostTensor w, HostTensor x, double most, PrintStream out) {
        Plain.MatMul op = new Plain.MatMul(false, true, DType.BF16);
        long rows = x.shape().dim(0);
        try (Scope scope = new Scope(device)) {
            if (device.supports(op, x.spec(), w.spec()) != Support.NATIVE) {
                out.printf("%-8s M %2d: no kernel%n", w.spec().dtype(), rows);
                return;
            }
            Tensor[] in = OpRunner.upload(scope, x);
            Tensor y =
                    scope.allocate(new Spec(DType.BF16, Shape.of(rows, w.shape().dim(0))));
            Runnable all = () -> copies.forEach(copy -> device.run(op, new Tensor[] {in[0], copy}, new Tensor[] {y}));
            all.run();
            double error = error(x, w, OpRunner.download(device, y));
            Object step = new Object();
            long[] nanos = new long[REPEATS];
            for (int i = 0; i < REPEATS; i++) {
                device.synchronize();
                long start = System.nanoTime();
                device.replay(step, all);
                device.synchronize();
                nanos[i] = System.nanoTime() - start;
            }
            Arrays.sort(nanos);
            device.forget(step);
            double seconds = nanos[REPEATS / 2] / 1e9 / COPIES;
            double rate = copies.getFirst().bytes() / seconds;
            out.printf(
                    "%-8s M %2d %8.1f us %7.0f GB/s of weights, %3.0f %% of a copy; error %.1e%n",
                    w.spec().dtype(), rows, seconds * 1e6, rate / 1e9, 100 * rate / most, error);
        }
    }

    /** The largest error of a few columns, compared with sums in double and relative to the largest value. */
    private static double error(HostTensor x, HostTensor w, HostTensor y) {
        int terms = (int) w.shape().dim(1);
        int columns = (int) w.shape().dim(0);
        int rows = (int) x.shape().dim(0);
        double most = 0;
        double worst = 0;
        for (int i = 0; i < CHECKED; i++) {
            int column = (int) (i * (columns - 1L) / (CHECKED - 1));
            double[] weights = new double[terms];
            for (int k = 0; k < terms; k++) {
                weights[k] = w.at(column * terms + k);
            }
            for (int row = 0; row < rows; row++) {
                double right = 0;
                for (int k = 0; k < terms; k++) {
                    right += weights[k] * x.at(row * terms + k);
                }
                most = Math.max(most, Math.abs(right));
                worst = Math.max(worst, Math.abs(right - y.at(row * columns + column)));
            }
        }
        if (!(worst <= BOUND * most)) {
            throw new IllegalStateException("sweep: " + w.spec() + ", " + rows + " rows: off by " + worst
                    + " where the largest number is " + most + ", so it is not timed");
        }
        return worst / most;
    }

    private static double copied(Device device, double bytes) {
        try (Scope scope = new Scope(device)) {
            Tensor from = scope.allocate(Spec.f32((long) (bytes / 8)));
            Tensor to = scope.allocate(from.spec());
            device.run(new Plain.Fill(from.spec(), 1), new Tensor[0], new Tensor[] {from});
            return 2.0
                    * from.bytes()
                    / Speed.seconds(device, new Plain.Concat(), new Tensor[] {from}, new Tensor[] {to});
        }
    }
}
