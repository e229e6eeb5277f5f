package dev.starforge.api.server;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Plain;

/**
 * Smoke test of a device: compares one matrix product with the result computed here. It finds a driver that cannot compile, or a
 * GPU that is gone or returns zeros, before a model is loaded. The conformance suite tests the operations.
 */
final class DeviceCheck {
    private static final int ROWS = 13;
    private static final int INNER = 130;
    private static final int COLUMNS = 7;
    private static final double TOLERANCE = 1e-5; // of the sum of absolute products

    private DeviceCheck() {}

    static void require(Device device) {
        float[] a = numbers(ROWS * INNER, 1);
        float[] b = numbers(INNER * COLUMNS, 2);
        float[] computed;
        try (Scope scope = new Scope(device)) {
            Tensor left = scope.allocate(Spec.f32(ROWS, INNER));
            Tensor right = scope.allocate(Spec.f32(INNER, COLUMNS));
            device.write(left, a);
            device.write(right, b);
            computed = device.floats(device.ops(scope, Precision.FLOAT32, Fallback.QUIET)
                    .run(new Plain.MatMul(false, false, DType.F32), left, right));
        }
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            double sum = 0;
            double magnitude = 0;
            for (int k = 0; k < INNER; k++) {
                double product = (double) a[i / COLUMNS * INNER + k] * b[k * COLUMNS + i % COLUMNS];
                sum += product;
                magnitude += Math.abs(product);
            }
            if (!(Math.abs(computed[i] - sum) <= TOLERANCE * magnitude)) {
                throw new DeviceException("device check: a product of " + ROWS + "x" + INNER + " and " + INNER + "x"
                        + COLUMNS + " on " + device.name() + ": expected " + sum + " at " + i + ", got " + computed[i]
                        + "; `starforge devices` lists other devices");
            }
        }
    }

    private static float[] numbers(int count, int seed) {
        float[] numbers = new float[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = Math.floorMod(31 * i * seed + i / 7, 61) / 30f - 1;
        }
        return numbers;
    }
}
