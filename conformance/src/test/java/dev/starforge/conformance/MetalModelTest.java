package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.metal.StandIn;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.train.trainer.Trainer;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A whole model on {@code --device metal}, with the backend as it is and a library that stands in for Metal. {@link MetalGoldenTest} runs
 * all golden models, which takes minutes.
 */
final class MetalModelTest {
    private static final String MODEL = "llama3";
    private static final int PROMPT = 9;
    private static final int DECODED = 5;

    private StandIn standIn;

    @BeforeEach
    void open() {
        standIn = StandIn.open();
        standIn.violations();
    }

    @AfterEach
    void close() {
        String violations = standIn.violations();
        String live = standIn.live();
        standIn.close();
        assertThat(violations).isEmpty();
        assertThat(live).isEmpty();
    }

    /** The steps after the second are replayed, with other tokens and positions. */
    @Test
    void decodingMatchesTheCpu() {
        try (TinyModel tiny = new TinyModel(MODEL, "metal");
                TinyModel cpu = new TinyModel(MODEL, "cpu");
                Engine engine = new Engine(tiny.model, tiny.device, Precision.FLOAT32, Fallback.FORBIDDEN, 1)) {
            int[] ids = Arrays.copyOf(cpu.sequence(0), PROMPT + DECODED);
            float[] expected = cpu.logits(ids);
            Engine.Sequence sequence = engine.open(ids);
            String settled = "";
            for (int i = 0; i <= DECODED; i++) {
                engine.step(List.of(new SequenceChunk(sequence, i == 0 ? PROMPT : 1, 1)));
                float[] logits = tiny.rows(tiny.device.floats(engine.logits()), 0, 1);
                assertClose(logits, cpu.rows(expected, PROMPT + i - 1, PROMPT + i));
                settled = i == DECODED - 1 ? standIn.live() : settled;
            }
            assertThat(standIn.live()).isEqualTo(settled);
        }
    }

    private static void assertClose(float[] ours, float[] expected) {
        for (int i = 0; i < expected.length; i++) {
            assertThat((double) ours[i]).isCloseTo(expected[i], within(1e-4));
        }
    }

    @Test
    void trainingMatchesTheCpu() {
        try (TinyModel tiny = new TinyModel(MODEL, "metal");
                Trainer trainer = tiny.trainer(Checkpointing.OFF);
                TinyModel cpu = new TinyModel(MODEL, "cpu");
                Trainer expected = cpu.trainer(Checkpointing.OFF)) {
            for (int i = 0; i < 2; i++) {
                Trainer.Report ours = trainer.step(tiny.examples(), 1e-2);
                Trainer.Report theirs = expected.step(cpu.examples(), 1e-2);
                assertThat(ours.loss()).isCloseTo(theirs.loss(), within(1e-4));
                assertThat(ours.gradientNorm()).isCloseTo(theirs.gradientNorm(), within(1e-3));
            }
        }
    }
}
