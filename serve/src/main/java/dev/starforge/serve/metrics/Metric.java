package dev.starforge.serve.metrics;

/** A family of samples. */
public interface Metric {
    void write(Exposition out);
}
