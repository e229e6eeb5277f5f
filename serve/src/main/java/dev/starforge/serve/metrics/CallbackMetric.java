package dev.starforge.serve.metrics;

import java.util.function.DoubleSupplier;

/** A value that somebody else keeps, read when asked for: a gauge, or a counter of the engine's. */
record CallbackMetric(String name, String help, String type, String labels, DoubleSupplier value) implements Metric {
    @Override
    public void write(Exposition out) {
        out.family(name, help, type);
        out.sample(name, labels, value.getAsDouble());
    }
}
