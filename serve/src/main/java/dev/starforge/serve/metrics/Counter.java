package dev.starforge.serve.metrics;

import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.LongAdder;

/** A counter with one label. All label values are exported from the start, so that rates are defined. */
public final class Counter implements Metric {
    private final String name;
    private final String help;
    private final String labels;
    private final String label;
    private final Map<String, LongAdder> counts = new ConcurrentSkipListMap<>();

    public Counter(String name, String help, String labels, String label, String... values) {
        this.name = name;
        this.help = help;
        this.labels = labels;
        this.label = label;
        for (String value : values) {
            counts.put(value, new LongAdder());
        }
    }

    public void add(String value, long count) {
        LongAdder adder = counts.get(value);
        if (adder == null) {
            throw new IllegalArgumentException(
                    "counter " + name + ": expected one of " + counts.keySet() + ", got " + value);
        }
        adder.add(count);
    }

    /** The count over all label values. */
    long total() {
        return counts.values().stream().mapToLong(LongAdder::sum).sum();
    }

    @Override
    public void write(Exposition out) {
        out.family(name, help, "counter");
        counts.forEach((value, count) -> out.sample(
                name, label.isEmpty() ? labels : Exposition.join(labels, label + "=\"" + value + "\""), count.sum()));
    }
}
