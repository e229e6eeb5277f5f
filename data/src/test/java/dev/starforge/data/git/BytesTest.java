package dev.starforge.data.git;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Eight bytes at once are what they are one by one. */
final class BytesTest {
    private static final int[] AWKWARD = {
        0, 1, 9, 10, 11, 31, 32, 33, 34, 35, 91, 92, 93, 127, 128, 129, 138, 160, 162, 220, 255
    };

    private final Random random = new Random(5);

    private byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) (random.nextInt(3) == 0 ? AWKWARD[random.nextInt(AWKWARD.length)] : random.nextInt(256));
        }
        return bytes;
    }

    @Test
    void theFirstMarkedByteIsTheFirstThatFits() {
        for (int round = 0; round < 20_000; round++) {
            byte[] bytes = bytes(8);
            long eight = Bytes.eight(bytes, 0);
            int value = AWKWARD[random.nextInt(AWKWARD.length)];
            int bound = 1 + random.nextInt(128);
            int equal = 8;
            int below = 8;
            for (int i = 7; i >= 0; i--) {
                equal = (bytes[i] & 0xFF) == value ? i : equal;
                below = (bytes[i] & 0xFF) < bound ? i : below;
            }
            assertThat(Bytes.first(Bytes.equal(eight, value))).isEqualTo(equal);
            assertThat(Bytes.first(Bytes.below(eight, bound))).isEqualTo(below);
        }
    }

    @Test
    void linesBeginAfterNewlines() {
        for (int round = 0; round < 2_000; round++) {
            byte[] bytes = bytes(random.nextInt(60));
            List<Integer> expected = new ArrayList<>();
            for (int i = 0; i < bytes.length; i++) {
                if (i == 0 || bytes[i - 1] == '\n') {
                    expected.add(i);
                }
            }
            Lines lines = Lines.of(bytes);
            List<Integer> starts = new ArrayList<>();
            for (int line = 0; line < lines.count(); line++) {
                starts.add(lines.start(line));
            }
            assertThat(starts)
                    .as(new String(bytes, StandardCharsets.ISO_8859_1))
                    .isEqualTo(expected);
            assertThat(lines.start(lines.count())).isEqualTo(bytes.length);
        }
    }
}
