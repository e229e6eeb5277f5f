package dev.starforge.train.run;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The number of steps of a run, and its learning rates. With {@code training.max_minutes}, the number follows from the speed
 * of the last steps and is planned again every few seconds, so one wrong measurement cannot waste the time. A plan is part of
 * every checkpoint: a resumed run continues with the plan of its checkpoint until the next one is due.
 */
final class StepPlan {
    /** Seconds between plans. */
    private static final double AGAIN = 10;

    /** The number of first steps after which a run is planned again, each time. */
    private static final int FIRST = 4;

    private static final double MINUTE = 60;

    private final RunConfig config;
    private final long most;
    private final double seconds;
    private LearningRateSchedule schedule;
    private Mark older = new Mark(0, 0);
    private Mark newer = older;

    /** A finished step, and the time that the run had taken then. */
    private record Mark(long step, double elapsed) {}

    /** @param most number of steps of all epochs, or {@code training.max_steps} */
    StepPlan(RunConfig config, long most) {
        this.config = config;
        this.most = most;
        this.seconds = MINUTE * config.get(Keys.MAX_MINUTES);
        this.schedule = LearningRateSchedule.of(config, most);
    }

    /** Total steps, by the newest plan. */
    long steps() {
        return schedule.steps();
    }

    double rate(long step) {
        return schedule.rate(step);
    }

    boolean hasTimeLimit() {
        return seconds > 0;
    }

    /** Called before the first step of this process. */
    void begin(long step, double elapsed) {
        older = new Mark(step, elapsed);
        newer = older;
    }

    /** Called after every step: plans again if that is due. */
    void finished(long step, double elapsed) {
        if (hasTimeLimit() && (step <= FIRST || elapsed - newer.elapsed >= AGAIN)) {
            plan(step, elapsed, older);
            older = newer;
            newer = new Mark(step, elapsed);
        }
    }

    private void plan(long step, double elapsed, Mark since) {
        double each = (elapsed - since.elapsed) / (step - since.step);
        long end = step + (long) Math.floor(Math.max(0, seconds - elapsed) / each);
        schedule = schedule.endingAt(Math.min(end, most), step, config);
    }

    void write(ObjectNode scheduler) {
        scheduler.put("shape", schedule.shape().name());
        scheduler.put("steps", schedule.steps());
        scheduler.put("warmup", schedule.warmup());
        scheduler.put("from_step", schedule.from()).put("from_progress", schedule.done());
        scheduler.put("time_limit_seconds", seconds);
    }

    /** Continues with the plan of a checkpoint. Another time limit is planned for at once, with the mean speed so far. */
    void restore(JsonNode scheduler, long step, double elapsed) {
        if (!hasTimeLimit() || !scheduler.has("from_step")) {
            return;
        }
        schedule = new LearningRateSchedule(
                schedule.shape(),
                schedule.peak(),
                scheduler.path("warmup").longValue(),
                scheduler.path("steps").longValue(),
                scheduler.path("from_step").longValue(),
                scheduler.path("from_progress").doubleValue());
        if (scheduler.path("time_limit_seconds").doubleValue(0) != seconds && step > 0) {
            plan(step, elapsed, new Mark(0, 0));
        }
    }
}
