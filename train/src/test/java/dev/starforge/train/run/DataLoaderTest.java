package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.train.corpus.Corpus;
import dev.starforge.train.corpus.TrainingExample;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

final class DataLoaderTest {
    private static final List<List<Integer>> SEQUENCES = List.of(List.of(2), List.of(0), List.of(1));

    private final Set<Thread> readers = ConcurrentHashMap.newKeySet();
    private IntConsumer gate = _ -> {};

    /** Three documents of 10, 11 and 12 tokens; whoever reads one passes the gate. */
    private Corpus corpus() {
        TokenDocuments documents = new TokenDocuments() {
            @Override
            public int count() {
                return 3;
            }

            @Override
            public int length(int document) {
                return 10 + document;
            }

            @Override
            public TokenDocument read(int document) {
                readers.add(Thread.currentThread());
                gate.accept(document);
                int[] ids = IntStream.range(0, length(document)).toArray();
                boolean[] counted = new boolean[ids.length];
                Arrays.fill(counted, true);
                return new TokenDocument("text-" + document, ids, counted);
            }

            @Override
            public long tokens() {
                return 33;
            }

            @Override
            public void close() {}
        };
        Corpus corpus = new Corpus(documents, 1000, document -> 1, Corpus.Settings.plain(64, Optional.empty()));
        readers.clear();
        return corpus;
    }

    private static List<Integer> lengths(List<List<TrainingExample>> read) {
        return read.stream().map(each -> each.getFirst().ids().length).toList();
    }

    @Test
    void severalThreadsReadInOrder() {
        Corpus corpus = corpus();
        try (DataLoader none = new DataLoader(corpus, 0)) {
            assertThat(lengths(none.read(SEQUENCES, 0).get())).containsExactly(12, 10, 11);
            assertThat(readers).containsExactly(Thread.currentThread());
        }
        readers.clear();
        CountDownLatch together = new CountDownLatch(3);
        gate = _ -> {
            together.countDown();
            try {
                assertThat(together.await(20, TimeUnit.SECONDS))
                        .as("three at once")
                        .isTrue();
            } catch (InterruptedException stopped) {
                throw new AssertionError(stopped);
            }
        };
        try (DataLoader three = new DataLoader(corpus, 3)) {
            assertThat(lengths(three.read(SEQUENCES, 0).get())).containsExactly(12, 10, 11);
            assertThat(readers).hasSize(3).doesNotContain(Thread.currentThread());
        }
    }

    @Test
    void readErrorsAreThrownToTheConsumer() {
        Corpus corpus = corpus();
        gate = document -> {
            if (document == 1) {
                throw new IllegalStateException("damaged");
            }
        };
        try (DataLoader two = new DataLoader(corpus, 2)) {
            Supplier<List<List<TrainingExample>>> reading = two.read(SEQUENCES, 0);
            assertThatThrownBy(reading::get)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessage("damaged");
        }
    }
}
