package dev.starforge.train.run;

import dev.starforge.train.corpus.Corpus;
import dev.starforge.train.corpus.TrainingExample;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Supplier;

/**
 * Loads sequences ahead of the step that needs them, on background threads or on the calling thread. The result does
 * not depend on the number of threads.
 */
final class DataLoader implements AutoCloseable {
    private final Corpus corpus;
    private final Optional<ExecutorService> threads;

    /** @param threads number of threads; 0 loads on the calling thread */
    DataLoader(Corpus corpus, int threads) {
        this.corpus = corpus;
        this.threads = threads == 0
                ? Optional.empty()
                : Optional.of(Executors.newFixedThreadPool(
                        threads, Thread.ofPlatform().name("loader ", 0).daemon().factory()));
    }

    /** Starts loading; the returned supplier waits for the result. */
    Supplier<List<List<TrainingExample>>> read(List<List<Integer>> sequences, int epoch) {
        if (threads.isEmpty()) {
            List<List<TrainingExample>> examples =
                    sequences.stream().map(each -> corpus.read(each, epoch)).toList();
            return () -> examples;
        }
        ExecutorService loaders = threads.get();
        List<CompletableFuture<List<TrainingExample>>> begun = sequences.stream()
                .map(each -> CompletableFuture.supplyAsync(() -> corpus.read(each, epoch), loaders))
                .toList();
        return () -> begun.stream().map(DataLoader::whenRead).toList();
    }

    private static List<TrainingExample> whenRead(CompletableFuture<List<TrainingExample>> reading) {
        try {
            return reading.join();
        } catch (CompletionException failure) {
            throw failure.getCause() instanceof RuntimeException itself ? itself : failure;
        }
    }

    /** Waits for pending reads, so that the corpus can be closed safely. */
    @Override
    public void close() {
        threads.ifPresent(ExecutorService::close);
    }
}
