package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.starforge.model.generate.Generator;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Fallback;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;

/** Generating a token allocates a few small objects: no buffer, and nothing that grows with the weights. */
final class AllocationTest {
    private static final int WARM = 3000;
    private static final int COUNTED = 200;
    private static final long MOST_BYTES = 128 << 10;

    private static long allocated() {
        return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getTotalThreadAllocatedBytes();
    }

    private static long buffers() {
        return ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
                .filter(pool -> pool.getName().equals("direct"))
                .mapToLong(BufferPoolMXBean::getCount)
                .sum();
    }

    /** Warms up first: vectors in code that is not compiled yet are objects, too. */
    @Test
    void decodingAllocatesFewObjectsAndNoBuffers() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu", 2, Precision.FLOAT32);
                Generator generator = new Generator(
                        tiny.model,
                        tiny.device,
                        Precision.FLOAT32.withKv(DType.F16),
                        Fallback.QUIET,
                        tiny.model.info().contextLength())) {
            for (int i = 0; i < WARM; i++) {
                token(generator, i);
            }
            long buffers = buffers();
            long before = allocated();
            for (int i = 0; i < COUNTED; i++) {
                token(generator, i);
            }
            long each = (allocated() - before) / COUNTED;
            assertThat(each).as("bytes of objects for a token").isLessThan(MOST_BYTES);
            assertThat(buffers() - buffers).as("direct buffers").isZero();
        }
    }

    private static void token(Generator generator, int i) {
        if (i % COUNTED == 0) {
            generator.reset();
            generator.feedOne(3);
        }
        generator.feedOne(generator.next() % 7 + i % 5);
    }
}
