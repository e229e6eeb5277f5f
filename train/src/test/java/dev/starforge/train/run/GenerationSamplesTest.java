package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

final class GenerationSamplesTest {
    /** A document whose ids are its positions plus {@code first}; those from {@code from} on count in the loss. */
    private static TokenDocument document(String id, int first, int length, int from) {
        boolean[] counted = new boolean[length];
        Arrays.fill(counted, from, length, true);
        return new TokenDocument(id, IntStream.range(first, first + length).toArray(), counted);
    }

    private static TokenDocuments of(List<TokenDocument> documents) {
        return new TokenDocuments() {
            @Override
            public int count() {
                return documents.size();
            }

            @Override
            public int length(int document) {
                return documents.get(document).ids().length;
            }

            @Override
            public TokenDocument read(int document) {
                return documents.get(document);
            }

            @Override
            public long tokens() {
                return documents.stream().mapToLong(each -> each.ids().length).sum();
            }

            @Override
            public void close() {}
        };
    }

    @Test
    void promptsAreDifferentAndOfAddedCode() {
        List<int[]> prompts = GenerationSamples.prompts(
                of(List.of(
                        document("commit-a-0", 0, 100, 60),
                        document("commit-a-1", 0, 100, 60),
                        document("chunk-b", 500, 100, 60),
                        document("commit-c-0", 1000, 400, 100),
                        document("commit-d-0", 2000, 100, 95))),
                4,
                64);
        assertThat(prompts).hasSize(2);
        assertThat(prompts.get(0)).isEqualTo(IntStream.range(60, 80).toArray());
        assertThat(prompts.get(1))
                .as("the last tokens of the first half")
                .isEqualTo(IntStream.range(1186, 1250).toArray());
    }

    @Test
    void otherTextsBeginWithTheirBeginning() {
        List<TokenDocument> texts = IntStream.range(0, 100)
                .mapToObj(i -> document("line-" + i, 1000 * i, 40, 20))
                .toList();
        List<int[]> prompts = GenerationSamples.prompts(of(texts), 3, 64);
        assertThat(prompts.stream().map(prompt -> prompt[0])).containsExactly(0, 33_000, 66_000);
        assertThat(prompts).allMatch(prompt -> prompt.length == 20);
    }
}
