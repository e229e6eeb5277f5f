package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.train.config.RunConfig;
import java.util.List;
import org.junit.jupiter.api.Test;

final class LearningRateScheduleTest {
    private static LearningRateSchedule of(String... settings) {
        return LearningRateSchedule.of(RunConfig.defaults().set(List.of(settings)), 100);
    }

    @Test
    void risesLinearlyToThePeak() {
        LearningRateSchedule schedule = of("optimization.learning_rate=1", "optimization.warmup_steps=10");
        assertThat(schedule.rate(0)).isEqualTo(0.1);
        assertThat(schedule.rate(4)).isEqualTo(0.5);
        assertThat(schedule.rate(9)).isEqualTo(1);
    }

    @Test
    void theRatioCountsFromAllSteps() {
        LearningRateSchedule schedule = of("optimization.warmup_ratio=0.2");
        assertThat(schedule.warmup()).isEqualTo(20);
    }

    @Test
    void falls() {
        String[] shapes = {"cosine", "linear", "constant", "wsd"};
        double[][] expected = {{1, 0.5, 0.0245}, {1, 0.5, 0.1}, {1, 1, 1}, {1, 1, 0.5}};
        for (int i = 0; i < shapes.length; i++) {
            LearningRateSchedule schedule = of(
                    "optimization.learning_rate=1",
                    "optimization.warmup_ratio=0",
                    "optimization.lr_scheduler=" + shapes[i]);
            assertThat(schedule.rate(0)).as(shapes[i]).isCloseTo(expected[i][0], within(1e-3));
            assertThat(schedule.rate(50)).as(shapes[i]).isCloseTo(expected[i][1], within(1e-3));
            assertThat(schedule.rate(90)).as(shapes[i]).isCloseTo(expected[i][2], within(1e-3));
        }
    }
}
