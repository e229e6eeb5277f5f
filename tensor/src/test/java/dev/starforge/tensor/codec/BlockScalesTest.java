package dev.starforge.tensor.codec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;

/** What the decoder turns into a weight that is not finite is what is refused: each byte of a block is tried. */
final class BlockScalesTest {
    @ParameterizedTest
    @EnumSource(value = DType.class, names = "Q.*|NF4", mode = Mode.MATCH_ALL)
    void infiniteAndNanScalesAreRefused(DType type) {
        int each = type.blockBytes();
        float[] weights = new float[3 * type.blockElements()];
        for (int i = 0; i < weights.length; i++) {
            weights[i] = (i * 37 % 64 - 31) / 64f;
        }
        byte[] blocks = new byte[3 * each];
        BlockFormat.of(type).encode(weights, 0, weights.length, ByteBuffer.wrap(blocks), 0);
        assertThatCode(() -> BlockFormat.of(type).requireFiniteScales(ByteBuffer.wrap(blocks)))
                .doesNotThrowAnyException();
        List<Integer> refused = new ArrayList<>();
        for (int at = 2 * each; at + 1 < 3 * each; at++) {
            byte[] wrong = blocks.clone();
            wrong[at] = (byte) (type == DType.NF4 ? 0x80 : 0);
            wrong[at + 1] = (byte) (type == DType.NF4 ? 0x7f : 0x7c);
            BlockFormat.of(type).decode(ByteBuffer.wrap(wrong), 0, weights, 0, weights.length);
            boolean finite = true;
            for (float weight : weights) {
                finite &= Float.isFinite(weight);
            }
            if (!finite) {
                refused.add(at);
                assertThatThrownBy(() -> BlockFormat.of(type).requireFiniteScales(ByteBuffer.wrap(wrong)))
                        .isInstanceOf(TensorException.class)
                        .hasMessageContaining("block 2 of " + type);
            }
        }
        assertThat(refused).isNotEmpty();
    }
}
