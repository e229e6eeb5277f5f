package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.text.json.Jackson;
import dev.starforge.train.config.RunConfig;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.node.ObjectNode;

/** A time limit is used, whatever the speed, and the learning rate reaches its end with it. */
final class StepPlanTest {
    private static final String[] SETTINGS = {"training.max_minutes=2", "optimization.learning_rate=1"};

    private static StepPlan plan(String... settings) {
        return new StepPlan(RunConfig.defaults().set(List.of(SETTINGS)).set(List.of(settings)), 1_000_000);
    }

    /** The machine becomes four times as fast, or slow, in the middle. */
    @ParameterizedTest
    @ValueSource(doubles = {0.25, 1, 4})
    void theTimeIsUsedThoughTheSpeedChanges(double factor) {
        StepPlan plan = plan();
        double elapsed = 3;
        long step = 0;
        double rate = 1;
        double largestFall = 0;
        plan.begin(0, elapsed);
        while (step < plan.steps()) {
            double next = plan.rate(step);
            if (step > 20) {
                largestFall = Math.max(largestFall, rate - next);
                assertThat(next).as("after the warmup the rate only falls").isLessThanOrEqualTo(rate);
            }
            rate = next;
            elapsed += elapsed < 60 ? 0.4 : 0.4 * factor;
            plan.finished(++step, elapsed);
        }
        assertThat(elapsed).isBetween(0.95 * 120, 121.6);
        assertThat(rate).as("the last rate").isBetween(0.0, 0.06);
        assertThat(largestFall).as("no jump").isLessThan(0.12);
    }

    @Test
    void withoutALimitNothingIsPlannedAgain() {
        StepPlan plan = new StepPlan(RunConfig.defaults(), 50);
        plan.begin(0, 0);
        plan.finished(1, 1000);
        assertThat(plan.steps()).isEqualTo(50);
    }

    @Test
    void thereAreNoMoreStepsThanEpochsHave() {
        StepPlan plan = new StepPlan(RunConfig.defaults().set(List.of(SETTINGS)), 30);
        plan.begin(0, 0);
        plan.finished(1, 0.01);
        assertThat(plan.steps()).isEqualTo(30);
    }

    private static StepPlan resumed(ObjectNode saved, long step, double elapsed, String... settings) {
        StepPlan plan = plan(settings);
        plan.restore(saved, step, elapsed);
        plan.begin(step, elapsed);
        return plan;
    }

    @Test
    void aResumedRunHasThePlanOfItsCheckpoint() {
        StepPlan plan = plan("optimization.lr_scheduler=wsd");
        plan.begin(0, 0);
        double elapsed = 0;
        for (int step = 1; step <= 130; step++) {
            elapsed += step < 60 ? 0.3 : 0.9;
            plan.finished(step, elapsed);
        }
        ObjectNode saved = Jackson.object();
        plan.write(saved);
        StepPlan resumed = resumed(saved, 130, elapsed, "optimization.lr_scheduler=wsd");
        assertThat(resumed.steps()).isEqualTo(plan.steps());
        for (long step = 130; step < plan.steps(); step++) {
            assertThat(resumed.rate(step)).isEqualTo(plan.rate(step));
        }
        StepPlan longer = resumed(saved, 130, elapsed, "optimization.lr_scheduler=wsd", "training.max_minutes=8");
        assertThat(longer.steps()).isGreaterThan(2 * plan.steps());
        assertThat(longer.rate(130)).isCloseTo(plan.rate(130), within(0.02));
    }
}
