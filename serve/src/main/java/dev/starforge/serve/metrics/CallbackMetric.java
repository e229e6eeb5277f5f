package dev.starforge.serve.metrics;

import java.util.function.DoubleSupplier;

/** A gauge or counter whose value is read when the metrics are written. */
record CallbackMetric(String name, String help, String type, String labels, DoubleSupplier value) implements Metric {
    @Override
    public void write(Exposition out) {
        out.family(name, help, type);
        out.sample(name, labels, value.getAsDouble());
    }
}
