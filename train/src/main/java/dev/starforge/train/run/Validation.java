package dev.starforge.train.run;

import dev.starforge.train.corpus.Corpus;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.trainer.Trainer;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import java.util.function.BooleanSupplier;

/** The mean loss on a fixed sample of held-out documents. Can be stopped between batches. */
record Validation(Corpus corpus, Corpus.Sample sample) {
    /** Receives the number of tokens done. */
    interface Watcher {
        void done(long tokens);
    }

    /** Computes the loss; empty if stopped. */
    OptionalDouble loss(Trainer trainer, int sequences, BooleanSupplier stopping, Watcher watcher) {
        double sum = 0;
        long targets = 0;
        long done = 0;
        List<Integer> windows = sample.windows();
        for (int from = 0; from < windows.size(); from += sequences) {
            if (stopping.getAsBoolean()) {
                return OptionalDouble.empty();
            }
            List<TrainingExample> batch = new ArrayList<>();
            for (int window : windows.subList(from, Math.min(windows.size(), from + sequences))) {
                batch.addAll(corpus.read(List.of(window), 0));
                done += corpus.length(window);
            }
            long count = batch.stream().mapToLong(TrainingExample::targets).sum();
            sum += trainer.loss(batch) * count;
            targets += count;
            watcher.done(done);
        }
        return OptionalDouble.of(sum / targets);
    }
}
