package dev.starforge.metal;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.metal.HazardTracker.ByteRanges;
import org.junit.jupiter.api.Test;

class HazardTrackerTest {
    private final HazardTracker tracker = new HazardTracker();

    private boolean launch(long[] read, long[] written) {
        return tracker.needsBarrier(new ByteRanges(read, written));
    }

    private static long[] bytes(long... bounds) {
        return bounds;
    }

    @Test
    void readersOfOneBufferOverlap() {
        assertFalse(launch(bytes(0, 10), bytes(100, 110)));
        assertFalse(launch(bytes(0, 10), bytes(110, 120)));
    }

    @Test
    void readAfterWrite() {
        assertFalse(launch(bytes(), bytes(0, 10)));
        assertTrue(launch(bytes(9, 12), bytes(20, 30)));
        assertFalse(launch(bytes(9, 12), bytes(30, 40)), "the barrier covers what is before it");
    }

    @Test
    void writeAfterWrite() {
        assertFalse(launch(bytes(), bytes(0, 10)));
        assertTrue(launch(bytes(), bytes(0, 1)));
    }

    @Test
    void writeAfterRead() {
        assertFalse(launch(bytes(0, 10), bytes()));
        assertTrue(launch(bytes(), bytes(5, 6)));
    }

    @Test
    void neighboursDoNotConflict() {
        assertFalse(launch(bytes(), bytes(0, 10)));
        assertFalse(launch(bytes(10, 20), bytes(20, 30)));
    }

    @Test
    void manyRangesAreKept() {
        for (int i = 0; i < 1000; i++) {
            assertFalse(launch(bytes(), bytes(10L * i, 10L * i + 10)));
        }
        assertTrue(launch(bytes(0, 1), bytes()));
    }

    @Test
    void nothingIsLeftAfterAnEncoder() {
        assertFalse(launch(bytes(), bytes(0, 10)));
        tracker.clear();
        assertFalse(launch(bytes(0, 10), bytes()));
    }
}
