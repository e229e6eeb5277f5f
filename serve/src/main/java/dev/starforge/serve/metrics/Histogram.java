package dev.starforge.serve.metrics;

import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAdder;

/** A Prometheus histogram with cumulative buckets. */
public final class Histogram implements Metric {
    private final String name;
    private final String help;
    private final String labels;
    private final double[] bounds;
    private final LongAdder[] counts;
    private final DoubleAdder sum = new DoubleAdder();

    public Histogram(String name, String help, String labels, double... bounds) {
        this.name = name;
        this.help = help;
        this.labels = labels;
        this.bounds = bounds;
        counts = new LongAdder[bounds.length + 1];
        for (int i = 0; i < counts.length; i++) {
            counts[i] = new LongAdder();
        }
    }

    public void observe(double value) {
        int bucket = 0;
        while (bucket < bounds.length && value > bounds[bucket]) {
            bucket++;
        }
        counts[bucket].increment();
        sum.add(value);
    }

    @Override
    public void write(Exposition out) {
        out.family(name, help, "histogram");
        long total = 0;
        for (int i = 0; i < counts.length; i++) {
            total += counts[i].sum();
            String bound = i < bounds.length ? Exposition.number(bounds[i]) : "+Inf";
            out.sample(name + "_bucket", Exposition.join(labels, "le=\"" + bound + "\""), total);
        }
        out.sample(name + "_sum", labels, sum.sum());
        out.sample(name + "_count", labels, total);
    }
}
