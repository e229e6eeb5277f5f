package dev.starforge.serve.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What is reserved never exceeds a budget, and those who wait are served in order. */
final class ByteBudgetTest {
    @Test
    void reservesUpToTheTotal() {
        ByteBudget budget = new ByteBudget(10);
        assertThat(budget.tryReserve(7)).isTrue();
        assertThat(budget.tryReserve(4)).isFalse();
        assertThat(budget.tryReserve(3)).isTrue();
        budget.release(5);
        assertThat(budget.used()).isEqualTo(5);
        assertThatThrownBy(() -> budget.release(6)).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void givesUpAfterAWhile() throws Exception {
        ByteBudget budget = new ByteBudget(10);
        assertThat(budget.reserve(10, Duration.ZERO)).isTrue();
        assertThat(budget.reserve(1, Duration.ofMillis(5))).isFalse();
        budget.release(10);
        assertThat(budget.reserve(11, Duration.ofMillis(5))).isFalse();
        assertThat(budget.reserve(10, Duration.ZERO)).isTrue();
    }

    /** A large one that waits is not overtaken for good by small ones. */
    @Test
    void waitsInOrder() throws Exception {
        ByteBudget budget = new ByteBudget(10);
        assertThat(budget.tryReserve(8)).isTrue();
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (int bytes : new int[] {9, 1, 2}) {
            Thread thread = Thread.ofVirtual().start(() -> {
                try {
                    assertThat(budget.reserve(bytes, Duration.ofSeconds(10))).isTrue();
                    order.add(bytes);
                    budget.release(bytes);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            });
            threads.add(thread);
            while (thread.getState() != Thread.State.TIMED_WAITING) {
                Thread.onSpinWait();
            }
        }
        assertThat(order).isEmpty();
        budget.release(8);
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(order.getFirst()).isEqualTo(9);
        assertThat(budget.used()).isZero();
    }

    /** Requests that need no memory, such as health checks, are not delayed by those that do. */
    @Test
    void nothingIsReservedWithoutWaiting() throws Exception {
        ByteBudget budget = new ByteBudget(10);
        assertThat(budget.tryReserve(10)).isTrue();
        Thread waiter = Thread.ofVirtual().start(() -> {
            try {
                assertThat(budget.reserve(9, Duration.ofSeconds(10))).isTrue();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        while (waiter.getState() != Thread.State.TIMED_WAITING) {
            Thread.onSpinWait();
        }
        assertThat(budget.reserve(0, Duration.ZERO)).isTrue();
        budget.release(10);
        waiter.join();
        assertThat(budget.used()).isEqualTo(9);
    }
}
