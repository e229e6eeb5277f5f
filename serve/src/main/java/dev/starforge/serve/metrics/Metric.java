package dev.starforge.serve.metrics;

/** A metric family. */
public interface Metric {
    void write(Exposition out);
}
