package dev.starforge.train.tune;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.train.config.RunConfig;
import java.util.List;
import java.util.OptionalDouble;
import org.junit.jupiter.api.Test;

final class TuneBudgetTest {
    private static final long NANO = 22_000_000;

    private static TuneBudget budget(double seconds, double tokensPerSecond) {
        return new TuneBudget(OptionalDouble.of(seconds), tokensPerSecond, NANO);
    }

    /** Measured at a quarter of the speed that training then had: the evaluation is as large as it would have been. */
    @Test
    void theEvaluationHasTheSpeedThatTrainingHad() {
        assertThat(budget(300, 234).evaluationTokens(220, 900)).isGreaterThan(32_768);
        assertThat(budget(300, 234).evaluationTokens(220, 234)).isBetween(10_000, 22_000);
        assertThat(budget(300, 10).evaluationTokens(290, 10)).isEqualTo(4_096);
    }

    @Test
    void allStepsTogetherTakeTheTime() {
        for (double speed : new double[] {200, 1000, 50_000}) {
            TuneBudget budget = budget(300, speed);
            double all = 20 + budget.trainingSeconds(20) + budget.evaluationSeconds() + budget.mergeSeconds();
            assertThat(all).as("%.0f tokens/s", speed).isBetween(0.9 * 300, 300.0);
        }
    }

    @Test
    void trainingHasAMinimumHoweverLongTheDatasetTook() {
        assertThat(budget(300, 900).trainingSeconds(280)).isEqualTo(120);
    }

    @Test
    void epochsAndStepsOfTheSettingsAreLimits() {
        RunConfig plain = RunConfig.defaults()
                .set(List.of("optimization.batch_size=4", "optimization.gradient_accumulation_steps=1"));
        assertThat(TuneBudget.mostSteps(plain, 8192 * 10, false)).isEqualTo(40);
        assertThat(TuneBudget.mostSteps(plain, 8192 * 10, true)).isEqualTo(10);
        assertThat(TuneBudget.mostSteps(plain.set(List.of("training.num_epochs=2")), 8192 * 10, false))
                .isEqualTo(20);
        assertThat(TuneBudget.mostSteps(plain.set(List.of("training.max_steps=7")), 8192 * 10, false))
                .isEqualTo(7);
    }
}
