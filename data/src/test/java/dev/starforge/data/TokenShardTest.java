package dev.starforge.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is written is read; what was damaged is named. */
final class TokenShardTest {
    private static final int VOCABULARY = 70_000;

    @TempDir
    Path folder;

    private List<TokenDocument> write(Path file, int documents, int longest) {
        return write(file, VOCABULARY, documents, longest);
    }

    private static List<TokenDocument> write(Path file, int vocabulary, int documents, int longest) {
        Random random = new Random(7);
        List<TokenDocument> all = new ArrayList<>();
        try (TokenShardWriter writer = new TokenShardWriter(file, vocabulary)) {
            for (int d = 0; d < documents; d++) {
                int length = d == 0 ? 0 : random.nextInt(longest);
                int[] ids = random.ints(length, 0, vocabulary).toArray();
                boolean[] counted = new boolean[length];
                for (int i = 0; i < length; i++) {
                    counted[i] = random.nextBoolean();
                }
                TokenDocument document = new TokenDocument("sample-ä-" + d, ids, counted);
                all.add(document);
                writer.add(document, new SampleOrigin("c" + d, 1L << 33 | d, "src/" + d % 3));
            }
            writer.finish();
        }
        return all;
    }

    @ParameterizedTest
    @ValueSource(ints = {5_000, 1 << 16, VOCABULARY})
    void writtenShardsReadBack(int vocabulary) {
        Path file = folder.resolve("train.shard");
        // over a megabyte, so that there are several checksums
        List<TokenDocument> expected = write(file, vocabulary, 300, 5000);
        try (TokenShard shard = TokenShard.open(file)) {
            assertThat(shard.count()).isEqualTo(300);
            assertThat(shard.vocabularySize()).isEqualTo(vocabulary);
            assertThat(shard.tokens())
                    .isEqualTo(expected.stream().mapToLong(d -> d.ids().length).sum());
            for (int d = 0; d < 300; d++) {
                TokenDocument actual = shard.read(d);
                assertThat(actual.id()).isEqualTo(expected.get(d).id());
                assertThat(shard.length(d)).isEqualTo(expected.get(d).ids().length);
                assertThat(actual.ids()).isEqualTo(expected.get(d).ids());
                assertThat(actual.counted()).isEqualTo(expected.get(d).counted());
                assertThat(shard.origin(d)).isEqualTo(new SampleOrigin("c" + d, 1L << 33 | d, "src/" + d % 3));
            }
            assertThatThrownBy(() -> shard.read(300)).isInstanceOf(IndexOutOfBoundsException.class);
        }
        assertThat(folder).isDirectoryNotContaining("glob:**.partial");
    }

    @Test
    void anEmptyShardIsOne() {
        Path file = folder.resolve("val.shard");
        write(file, 0, 1);
        try (TokenShard shard = TokenShard.open(file)) {
            assertThat(shard.count()).isZero();
            assertThat(shard.tokens()).isZero();
        }
    }

    @Test
    void everyFlippedByteAndEveryTruncationIsDetected() throws IOException {
        Path file = folder.resolve("small.shard");
        write(file, 4, 20);
        byte[] good = Files.readAllBytes(file);
        Path broken = folder.resolve("broken.shard");
        for (int at = 0; at < good.length; at++) {
            byte[] flipped = good.clone();
            flipped[at] ^= 1;
            Files.write(broken, flipped);
            assertThatThrownBy(() -> TokenShard.open(broken).close())
                    .as("byte %d", at)
                    .isInstanceOf(DatasetException.class)
                    .hasMessageContaining("broken.shard: offset ");
            Files.write(broken, Arrays.copyOf(good, at));
            assertThatThrownBy(() -> TokenShard.open(broken).close())
                    .as("cut at %d", at)
                    .isInstanceOf(DatasetException.class);
        }
        Files.write(broken, Arrays.copyOf(good, good.length + 1));
        assertThatThrownBy(() -> TokenShard.open(broken).close()).isInstanceOf(DatasetException.class);
    }

    @Test
    void refusesIdsBeyondTheVocabularyAndLeavesNothing() {
        Path file = folder.resolve("test.shard");
        try (TokenShardWriter writer = new TokenShardWriter(file, 10)) {
            assertThatThrownBy(() -> writer.add(
                            new TokenDocument("x", new int[] {10}, new boolean[] {true}), new SampleOrigin("", 0, "")))
                    .isInstanceOf(DatasetException.class)
                    .hasMessageContaining("id 10, expected below 10");
        }
        assertThat(folder).isEmptyDirectory();
    }
}
