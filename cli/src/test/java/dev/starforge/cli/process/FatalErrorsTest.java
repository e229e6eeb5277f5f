package dev.starforge.cli.process;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.http.EssentialThread;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What ends the process of a server, and with which code. */
final class FatalErrorsTest {
    private final StringWriter err = new StringWriter();
    private final List<Integer> codes = new ArrayList<>();
    private final FatalErrors errors = new FatalErrors(new PrintWriter(err), codes::add);

    private void run(Runnable body, boolean essential) throws InterruptedException {
        Thread[] thread = new Thread[1];
        synchronized (thread) {
            Runnable gated = () -> {
                synchronized (thread) {
                    body.run();
                }
            };
            thread[0] = essential
                    ? EssentialThread.start("accept", gated)
                    : Thread.ofVirtual().start(gated);
            thread[0].setUncaughtExceptionHandler(errors);
        }
        thread[0].join();
    }

    private static Runnable fails(Error failure) {
        return () -> {
            throw failure;
        };
    }

    @Test
    void aFullHeapEndsTheProcessFromAnyThread() throws Exception {
        run(fails(new OutOfMemoryError("Java heap space")), false);
        run(fails(new OutOfMemoryError("Java heap space")), true);
        assertThat(codes).containsExactly(5, 5);
        assertThat(err.toString()).contains("out of Java heap memory", "STARFORGE_JAVA_OPTS");
    }

    @Test
    void aDeadEssentialThreadEndsTheProcess() throws Exception {
        run(fails(new AssertionError("a defect")), true);
        assertThat(codes).containsExactly(ExitCode.FAILED);
        assertThat(err.toString()).contains("a defect", "thread \"accept\" died");
    }

    @Test
    void anotherThreadThatDiesIsOnlyReported() throws Exception {
        run(fails(new AssertionError("a defect")), false);
        assertThat(codes).isEmpty();
        assertThat(err.toString()).contains("a defect");
    }

    @Test
    void aHeapThatIsOnlyCollectedIsExhausted() {
        HeapWatch watch = new HeapWatch(0, 0);
        long collected = 0;
        long second = 1_000_000_000L;
        for (int i = 1; i <= 20; i++) {
            collected += i % 5 == 0 ? 2000 : 4990;
            assertThat(watch.isExhausted(5 * i * second, collected))
                    .as("interval " + i)
                    .isFalse();
        }
        watch.isExhausted(105 * second, collected);
        for (int i = 22; i <= 27; i++) {
            collected += 4700;
            assertThat(watch.isExhausted(5 * i * second, collected))
                    .as("interval " + i)
                    .isEqualTo(i == 27);
        }
    }
}
