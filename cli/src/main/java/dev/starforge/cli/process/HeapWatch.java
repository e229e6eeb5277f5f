package dev.starforge.cli.process;

import dev.starforge.serve.http.EssentialThread;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.regex.Pattern;

/**
 * Recognizes a heap that is so full that the program only collects garbage. The JVM throws an {@code OutOfMemoryError} when a collection
 * frees nothing; with a little free each time, it can go on for hours.
 */
final class HeapWatch {
    private static final Duration INTERVAL = Duration.ofSeconds(5);
    private static final double MAX_SHARE = 0.9;

    /** Collectors that report time in which the program runs: those of G1, and the cycles of ZGC and Shenandoah. */
    private static final Pattern CONCURRENT = Pattern.compile("Concurrent|Cycles");

    /** Intervals in a row with a larger share; a large model may need a few full collections while it is loaded. */
    private static final int MAX_INTERVALS = 6;

    private long lastNanos;
    private long lastMillis;
    private int intervals;

    HeapWatch(long nanos, long collectionMillis) {
        lastNanos = nanos;
        lastMillis = collectionMillis;
    }

    static void start() {
        EssentialThread.start("heap watch", () -> {
            HeapWatch watch = new HeapWatch(System.nanoTime(), collectionMillis());
            while (!watch.isExhausted(System.nanoTime(), collectionMillis())) {
                try {
                    Thread.sleep(INTERVAL);
                } catch (InterruptedException e) {
                    return;
                }
            }
            throw new OutOfMemoryError("the program only collects garbage");
        });
    }

    /** Time in which collections stopped the program. */
    private static long collectionMillis() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
                .filter(collector -> !CONCURRENT.matcher(collector.getName()).find())
                .mapToLong(GarbageCollectorMXBean::getCollectionTime)
                .sum();
    }

    /**
     * Takes a measurement. Returns true if collections took most of each of the last intervals.
     *
     * @param nanos by {@link System#nanoTime}
     * @param collectionMillis total time of collections
     */
    boolean isExhausted(long nanos, long collectionMillis) {
        double elapsed = (nanos - lastNanos) / 1e6;
        boolean over = elapsed > 0 && (collectionMillis - lastMillis) / elapsed > MAX_SHARE;
        lastNanos = nanos;
        lastMillis = collectionMillis;
        intervals = over ? intervals + 1 : 0;
        return intervals >= MAX_INTERVALS;
    }
}
