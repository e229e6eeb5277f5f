package dev.starforge.data.dataset;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;

/** Runs the stages of a build one after another, reports their progress and times them. */
final class StageRunner {
    private final BuildProgress progress;
    private final LongSupplier nanoTime;
    private final Map<String, Double> seconds = new LinkedHashMap<>();
    private final long began;

    StageRunner(BuildProgress progress, LongSupplier nanoTime) {
        this.progress = progress;
        this.nanoTime = nanoTime;
        began = nanoTime.getAsLong();
    }

    /** Records the time since the runner was made as that of a stage that has no progress. */
    void recordStart(String name) {
        record(name, began);
    }

    void run(List<BuildStage> stages) throws IOException {
        for (BuildStage stage : stages) {
            run(stage);
        }
    }

    void run(BuildStage stage) throws IOException {
        long start = nanoTime.getAsLong();
        progress.begin(stage.name(), stage.total().getAsLong());
        stage.step().run();
        record(stage.name(), start);
    }

    private void record(String name, long start) {
        seconds.put(name, (nanoTime.getAsLong() - start) / 1e9);
    }

    /** Counts one unit of the running stage; any thread may call it. */
    void advance() {
        synchronized (progress) {
            progress.advance();
        }
    }

    void message(String text) {
        progress.message(text);
    }

    /** The duration of each finished stage, in order. */
    Map<String, Double> seconds() {
        return seconds;
    }
}
