package dev.starforge.train.corpus;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.text.config.ConfigException;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

final class CorpusTest {
    private static final FimTokens FIM = new FimTokens(1, 2, 3, Set.of(0), Set.of(1, 2, 3, 4));

    /** Documents whose tokens are 10, 11, ..., and 0 at the end. */
    private record Texts(int... lengths) implements TokenDocuments {
        @Override
        public int count() {
            return lengths.length;
        }

        @Override
        public int length(int document) {
            return lengths[document];
        }

        @Override
        public TokenDocument read(int document) {
            int[] ids = IntStream.range(10, 10 + lengths[document]).toArray();
            ids[ids.length - 1] = 0;
            boolean[] counted = new boolean[ids.length];
            Arrays.fill(counted, true);
            return new TokenDocument("text-" + document, ids, counted);
        }

        @Override
        public long tokens() {
            return Arrays.stream(lengths).sum();
        }

        @Override
        public void close() {}
    }

    private static Corpus corpus(boolean packing, double fim, double spm, int... lengths) {
        return new Corpus(
                new Texts(lengths),
                1000,
                document -> 1,
                new Corpus.Settings(64, packing, 9, Optional.of(FIM), fim, spm, false, false));
    }

    @Test
    void everyTokenButTheFirstIsPredictedOnceInAnEpoch() {
        Corpus corpus = corpus(true, 0, 0, 5, 64, 65, 200, 128, 2);
        int predicted = 0;
        for (List<Integer> sequence : corpus.epoch(3)) {
            List<TrainingExample> examples = corpus.read(sequence, 3);
            assertThat(examples.stream()
                            .mapToInt(example -> example.ids().length)
                            .sum())
                    .isLessThanOrEqualTo(64);
            predicted += examples.stream().mapToInt(TrainingExample::targets).sum();
        }
        assertThat(predicted).isEqualTo(4 + 63 + 64 + 199 + 127 + 1);
    }

    @Test
    void everyEpochHasItsOwnOrderAndTheSameSeedHasTheSame() {
        int[] lengths = IntStream.range(0, 40).map(i -> 10 + i % 17).toArray();
        Corpus corpus = corpus(true, 0.5, 0.5, lengths);
        assertThat(corpus.epoch(0)).isEqualTo(corpus(true, 0.5, 0.5, lengths).epoch(0));
        assertThat(corpus.epoch(1)).isNotEqualTo(corpus.epoch(0));
        assertThat(corpus.epoch(0).stream().flatMap(List::stream).sorted().toList())
                .isEqualTo(IntStream.range(0, 40).boxed().toList());
    }

    @Test
    void fimDocumentsHaveTheSameTokensInAnotherOrder() {
        int[] lengths = IntStream.range(0, 200).map(i -> 20).toArray();
        Corpus corpus = corpus(false, 0.5, 0.3, lengths);
        int transformed = 0;
        int suffixFirst = 0;
        for (List<Integer> sequence : corpus.epoch(0)) {
            int[] ids = corpus.read(sequence, 0).getFirst().ids();
            if (ids.length == 20) {
                continue;
            }
            transformed++;
            assertThat(ids[0]).isEqualTo(1);
            assertThat(ids[ids.length - 1]).isZero();
            suffixFirst += ids[1] == 2 ? 1 : 0;
            int[] rest = Arrays.stream(ids).filter(id -> id >= 10).sorted().toArray();
            assertThat(rest).isEqualTo(IntStream.range(10, 29).toArray());
            assertThat(untangled(ids)).isEqualTo(IntStream.range(10, 29).boxed().toList());
        }
        assertThat(transformed).isBetween(75, 125);
        assertThat(suffixFirst).isBetween(15, 60);
    }

    /** Prefix, middle and suffix put together again. */
    private static List<Integer> untangled(int[] ids) {
        List<Integer> all = Arrays.stream(ids).boxed().toList();
        int suffixAt = all.indexOf(2);
        int middleAt = all.indexOf(3);
        int end = all.size() - 1;
        List<Integer> text = new ArrayList<>();
        if (suffixAt == 1 && isSuffixFirst(all, middleAt)) {
            text.addAll(all.subList(middleAt + 1, end));
            text.addAll(all.subList(2, middleAt));
        } else {
            text.addAll(all.subList(1, suffixAt));
            text.addAll(all.subList(middleAt + 1, end));
            text.addAll(all.subList(suffixAt + 1, middleAt));
        }
        return text;
    }

    private static boolean isSuffixFirst(List<Integer> all, int middleAt) {
        return middleAt + 1 < all.size() && (middleAt == 2 || all.get(middleAt - 1) == 28);
    }

    @Test
    void fimAndPartlyMaskedDocumentsAreNotTransformed() {
        assertThat(FIM.applies(new int[] {10, 11, 12, 13, 14, 15, 16, 17})).isTrue();
        assertThat(FIM.applies(new int[] {10, 11, 3, 13, 14, 15, 16, 17})).isFalse();
    }

    @Test
    void anIdOutsideTheVocabularyIsAnError() {
        assertThatThrownBy(
                        () -> new Corpus(new Texts(50), 40, document -> 1, Corpus.Settings.plain(64, Optional.empty())))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("text-0")
                .hasMessageContaining("40");
    }

    @Test
    void aWeightOfZeroLeavesADocumentOut() {
        Corpus corpus = new Corpus(
                new Texts(10, 20, 30),
                1000,
                document -> document == 1 ? 0 : 2,
                Corpus.Settings.plain(64, Optional.empty()));
        assertThat(corpus.windows()).isEqualTo(2);
        assertThat(corpus.read(List.of(0), 0).getFirst().weight()).isEqualTo(2);
    }

    /** Documents of so many tokens, of which those before {@code from} do not count; the last but one is {@code marker}. */
    private static TokenDocuments of(int from, int marker, int... lengths) {
        Texts texts = new Texts(lengths);
        return new TokenDocuments() {
            @Override
            public int count() {
                return texts.count();
            }

            @Override
            public int length(int document) {
                return texts.length(document);
            }

            @Override
            public TokenDocument read(int document) {
                TokenDocument read = texts.read(document);
                Arrays.fill(read.counted(), 0, from, false);
                if (marker > 0) {
                    read.ids()[read.ids().length - 2] = marker;
                }
                return read;
            }

            @Override
            public long tokens() {
                return texts.tokens();
            }

            @Override
            public void close() {}
        };
    }

    private static DataFacts facts(TokenDocuments documents) {
        return new Corpus(documents, 1000, document -> 1, Corpus.Settings.plain(64, Optional.of(FIM))).facts();
    }

    @Test
    void onlyPlainDocumentsAreDivided() {
        DataFacts plain = facts(of(0, 0, 10, 100, 200));
        assertThat(plain.divided()).isEqualTo(2);
        assertThat(plain.dropped()).isZero();
        assertThat(plain.lossTokens()).isEqualTo(9 + 99 + 199);
        // the first token is never predicted, so it may as well not count
        assertThat(facts(of(1, 0, 10, 100, 200)).divided()).isEqualTo(2);
        DataFacts conditional = facts(of(2, 0, 10, 64, 65, 200));
        assertThat(conditional.divided()).isZero();
        assertThat(conditional.dropped()).isEqualTo(2);
        assertThat(conditional.documents()).isEqualTo(2);
        assertThat(conditional.droppedLossTokens()).isEqualTo(63 + 198);
        DataFacts transformed = facts(of(0, 3, 64, 65));
        assertThat(transformed.dropped())
                .as("a middle depends on what is around it")
                .isEqualTo(1);
        assertThat(transformed.documents()).isEqualTo(1);
        assertThat(plain.describeDropped()).isEmpty();
    }

    @Test
    void usedAndUnusedDocumentsAddUpToTheSplit() {
        TokenDocuments documents = of(5, 0, 5, 10, 64, 65, 200);
        Corpus corpus = new Corpus(
                documents, 1000, document -> document == 2 ? 0 : 1, Corpus.Settings.plain(64, Optional.of(FIM)));
        DataFacts facts = corpus.facts();
        assertThat(facts.all()).isEqualTo(new DataFacts.DocumentCount(5, documents.tokens()));
        assertThat(facts.describeUnused())
                .isEqualTo("344 tokens in 5 documents = 10 used + 5 in 1 document without a token that counts in the"
                        + " loss + 64 in 1 document excluded by the settings of training + 265 in 2 documents longer"
                        + " than the context");
        DataFacts divided = facts(of(0, 0, 10, 100, 200));
        assertThat(divided.describeUnused()).isEmpty();
        assertThat(divided.all().tokens()).isEqualTo(310);
        assertThat(divided.tokens()).isEqualTo(310 + divided.repeated());
    }

    @Test
    void aSampleIsSeededAndWithinItsTokenLimit() {
        int[] lengths = IntStream.range(0, 50).map(i -> 10 + i % 7).toArray();
        Corpus corpus = corpus(false, 0, 0, lengths);
        Corpus.Sample sample = corpus.sample(100, 42);
        assertThat(sample).isEqualTo(corpus.sample(100, 42));
        assertThat(sample.windows())
                .isNotEqualTo(corpus.sample(100, 43).windows())
                .isSorted();
        assertThat(sample.tokens()).isBetween(84L, 100L);
        assertThat(sample.lossTokens())
                .isEqualTo(sample.tokens() - sample.windows().size());
        assertThat(sample.describe())
                .startsWith(sample.tokens() + " of 647 tokens")
                .endsWith(", seed 42");
        assertThat(corpus.sample(0, 42).windows()).hasSize(50);
        assertThat(corpus.sample(0, 42).describe()).startsWith("all 647 tokens");
        assertThat(corpus.sample(1, 42).windows()).as("one at least").hasSize(1);
        assertThat(new Corpus.Sample(List.of(1), 200_000, 150_000, 33_800_000, 42).describe())
                .isEqualTo("200,000 of 33.8 M tokens (150,000 count in the loss), seed 42");
    }

    @Test
    void anEmptySplitNamesTheKeyThatSelectedIt() {
        RunConfig files = RunConfig.defaults().set(List.of("data.train=a.jsonl"));
        assertThat(DocumentSources.empty(files, Keys.TRAIN)).hasMessageContaining("key data.train: a.jsonl: ");
        RunConfig dataset = RunConfig.defaults().set(List.of("data.path=made"));
        assertThat(DocumentSources.empty(dataset, Keys.TRAIN))
                .hasMessageContaining("key data.path: made: the train split of this dataset has no document");
        assertThat(DocumentSources.empty(dataset, Keys.TEST)).hasMessageContaining("the test split");
    }
}
