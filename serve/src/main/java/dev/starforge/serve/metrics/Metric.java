package dev.starforge.serve.metrics;

/** A family of samples. */
interface Metric {
    void write(Exposition out);
}
