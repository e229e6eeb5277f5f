package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Fallback;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** For every architecture, cached decoding in a batch matches uncached decoding of single sequences. */
final class EveryModelTest {
    static List<String> names() throws IOException {
        try (Stream<Path> folders = Files.list(TinyModel.GOLDEN)) {
            return folders.map(folder -> folder.getFileName().toString())
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void aPromptInPiecesBesideAnotherEqualsTheWholeTextUncached(String name) {
        try (TinyModel tiny = new TinyModel(name, "cpu");
                Engine engine = new Engine(tiny.model, tiny.device, Precision.FLOAT32, Fallback.FORBIDDEN, 8)) {
            int[] a = Arrays.copyOf(tiny.sequence(0), 14);
            int[] b = Arrays.copyOf(tiny.sequence(1), 14);
            float[][] whole = {tiny.logits(a), tiny.logits(b)};
            boolean latent = tiny.model.info().latent(); // other sums of the same terms, with a cache
            Engine.Sequence one = engine.open(a);
            Engine.Sequence two = engine.open(b);
            int[] done = new int[2];
            for (int[] counts : new int[][] {{9, 0}, {1, 7}, {1, 4}, {1, 1}, {1, 1}, {1, 1}}) {
                List<SequenceChunk> pieces = counts[1] == 0
                        ? List.of(new SequenceChunk(one, counts[0], 1))
                        : List.of(new SequenceChunk(one, counts[0], 1), new SequenceChunk(two, counts[1], 1));
                engine.step(pieces);
                float[] logits = tiny.device.floats(engine.logits());
                for (int s = 0; s < pieces.size(); s++) {
                    done[s] += counts[s];
                    float[] ours = tiny.rows(logits, s, s + 1);
                    float[] expected = tiny.rows(whole[s], done[s] - 1, done[s]);
                    if (latent) {
                        assertThat(apart(ours, expected)).isLessThan(1e-5);
                    } else {
                        assertThat(ours)
                                .as("sequence " + s + " after " + done[s])
                                .isEqualTo(expected);
                    }
                }
            }
            assertThat(done).containsExactly(14, 14);
        }
    }

    private static double apart(float[] ours, float[] expected) {
        double most = 0;
        for (int i = 0; i < ours.length; i++) {
            most = Math.max(most, Math.abs(ours[i] - expected[i]));
        }
        return most;
    }
}
