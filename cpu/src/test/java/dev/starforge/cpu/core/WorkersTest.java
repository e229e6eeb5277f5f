package dev.starforge.cpu.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.device.DeviceException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Every chunk once, on several threads, with scratch of its own; failures come back to the caller. */
final class WorkersTest {
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 5})
    void everyChunkRunsOnce(int threads) {
        try (Workers workers = new Workers(threads)) {
            for (int chunks = 0; chunks < 300; chunks++) {
                AtomicIntegerArray runs = new AtomicIntegerArray(chunks);
                workers.run(chunks, (chunk, s, at) -> runs.incrementAndGet((int) chunk));
                for (int i = 0; i < chunks; i++) {
                    assertThat(runs.get(i)).as("chunk %d of %d", i, chunks).isEqualTo(1);
                }
            }
        }
    }

    @Test
    void theCallerWorksToo() {
        try (Workers workers = new Workers(3)) {
            CountDownLatch all = new CountDownLatch(3);
            Set<Thread> seen = ConcurrentHashMap.newKeySet();
            workers.run(3, (chunk, s, at) -> {
                seen.add(Thread.currentThread());
                all.countDown();
                try {
                    all.await(); // no thread can take two chunks
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            assertThat(seen).hasSize(3).contains(Thread.currentThread());
        }
    }

    @Test
    void oneChunkStaysWithTheCaller() {
        try (Workers workers = new Workers(2)) {
            Set<Thread> seen = ConcurrentHashMap.newKeySet();
            workers.run(1, (chunk, s, at) -> seen.add(Thread.currentThread()));
            assertThat(seen).containsExactly(Thread.currentThread());
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 4})
    void aFailureIsThrownAndTheNextOperationRuns(int threads) {
        try (Workers workers = new Workers(threads)) {
            assertThatThrownBy(() -> workers.run(100, (chunk, s, at) -> {
                        if (chunk == 57) {
                            throw new IllegalStateException("chunk 57");
                        }
                    }))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessage("chunk 57");
            AtomicIntegerArray runs = new AtomicIntegerArray(100);
            workers.run(100, (chunk, s, at) -> runs.incrementAndGet((int) chunk));
            assertThat(runs.get(99)).isEqualTo(1);
        }
    }

    @Test
    void scratchHasTheSizeOfTheLargestOperation() {
        try (Workers workers = new Workers(3)) {
            workers.reserve(new Scratch(10, 5));
            assertThat(workers.scratchBytes()).isEqualTo(4 * (10 + 3 * 5));
            workers.reserve(new Scratch(0, 7));
            assertThat(workers.scratchBytes()).isEqualTo(4 * (10 + 3 * 5));
            workers.run(50, (chunk, s, at) -> {
                assertThat(at % 7).isZero();
                assertThat(at).isBetween(0, 14);
            });
            workers.reserve(new Scratch(26, 0));
            assertThat(workers.scratchBytes()).isEqualTo(4 * 26);
        }
    }

    @Test
    void stripsCoverEveryElementOnce() {
        try (Workers workers = new Workers(2)) {
            int size = 5 * Scratch.STRIP * 8 + 3;
            AtomicIntegerArray runs = new AtomicIntegerArray(size);
            workers.strips(size, (from, count, s, at) -> {
                assertThat(count).isBetween(1, Scratch.STRIP);
                for (long i = from; i < from + count; i++) {
                    runs.incrementAndGet((int) i);
                }
            });
            for (int i = 0; i < size; i++) {
                assertThat(runs.get(i)).isEqualTo(1);
            }
        }
    }

    @Test
    void aClosedPoolRefusesWork() {
        Workers workers = new Workers(2);
        workers.close();
        assertThatThrownBy(() -> workers.run(1, (chunk, s, at) -> {})).isInstanceOf(DeviceException.class);
    }
}
