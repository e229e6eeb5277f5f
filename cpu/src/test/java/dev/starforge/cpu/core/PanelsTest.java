package dev.starforge.cpu.core;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.DType;
import java.lang.foreign.MemorySegment;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The quick way into a panel against the slow way out of it, which goes bit by bit by the tables of the formats. */
class PanelsTest {
    @ParameterizedTest
    @EnumSource(
            names = {
                "Q4_0",
                "Q4_1",
                "Q5_0",
                "Q5_1",
                "Q8_0",
                "Q4_K",
                "Q5_K",
                "Q6_K",
                "NF4",
                "NF4_DOUBLE",
                "INT8_128",
                "GPTQ_32",
                "GPTQ_128"
            })
    void repackingIsLossless(DType type) {
        Panels panels = Panels.of(type);
        Random random = new Random(7);
        for (int blocks : new int[] {1, 2, 17, 40}) {
            long k = (long) blocks * type.blockElements();
            for (int rows : new int[] {Panels.ROWS, 5}) {
                byte[] file = new byte[(int) (3 + rows * panels.rowBytes(k))];
                random.nextBytes(file);
                byte[] panel = new byte[(int) (5 + Panels.ROWS * panels.rowBytes(k))];
                panels.pack(MemorySegment.ofArray(file), 3, rows, k, MemorySegment.ofArray(panel), 5);
                byte[] back = file.clone();
                for (int row = 0; row < rows; row++) {
                    for (int b = 0; b < blocks; b++) {
                        int at = (int) (3 + row * panels.rowBytes(k) + b * panels.bytes());
                        panels.unpack(MemorySegment.ofArray(panel), 5, (long) b * type.blockElements(), row, back, at);
                    }
                }
                assertThat(back).isEqualTo(file);
            }
        }
    }
}
