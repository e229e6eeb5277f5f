package dev.starforge.train.eval;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.tensor.Philox;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.corpus.FimTokens;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

final class EvaluationTest {
    private static byte[] noise(int length, int kinds, int site) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) ('a' + (int) (Philox.uniform(3, site, i) * kinds));
        }
        return bytes;
    }

    @Test
    void statisticsOfBytesFindTheEntropyOfNoise() {
        byte[] train = noise(200_000, 4, 1);
        byte[] test = noise(20_000, 4, 2);
        assertThat(ByteModels.kneserNey(train, test)).isBetween(1.99, 2.05);
        assertThat(ByteModels.partialMatching(train, test)).isBetween(1.99, 2.15);
    }

    @Test
    void statisticsOfBytesFindRepetition() {
        byte[] text = "public static void main(String[] args) {\n".repeat(200).getBytes(StandardCharsets.UTF_8);
        assertThat(ByteModels.kneserNey(text, text)).isLessThan(1);
        assertThat(ByteModels.partialMatching(text, text)).isLessThan(0.1);
    }

    /** Every byte that could come next gets its share: the probabilities add up to one. */
    @Test
    void unseenBytesHaveAProbability() {
        byte[] train = noise(500, 3, 1);
        double sum = 0;
        for (int c = 0; c < 256; c++) {
            sum += Math.pow(2, -ByteModels.kneserNey(train, new byte[] {'a', 'b', (byte) c}));
        }
        assertThat(sum).isCloseTo(1, within(1e-9));
        sum = 0;
        for (int c = 0; c < 256; c++) {
            sum += Math.pow(2, -ByteModels.partialMatching(train, new byte[] {(byte) c}));
        }
        assertThat(sum).isCloseTo(1, within(1e-9));
    }

    @Test
    void intervalsHoldTheMeanAndShrinkWithTheSample() {
        double[] few = new double[50];
        double[] many = new double[5000];
        Arrays.setAll(few, i -> Philox.normal(4, 0, i));
        Arrays.setAll(many, i -> Philox.normal(4, 1, i));
        BootstrapInterval wide = BootstrapInterval.mean(few);
        BootstrapInterval narrow = BootstrapInterval.mean(many);
        assertThat(wide.low()).isLessThan(wide.value());
        assertThat(wide.high()).isGreaterThan(wide.value());
        assertThat(wide.high() - wide.low()).isBetween(0.3, 0.9); // 2 * 1.96 / sqrt(50) = 0.55
        assertThat(narrow.high() - narrow.low()).isBetween(0.04, 0.075);
        assertThat(BootstrapInterval.mean(few)).isEqualTo(wide);
    }

    @Test
    void identifiersAndEdits() {
        assertThat(CompletionEval.identifierF1("int x = foo(y);", "int x = foo(z);"))
                .isCloseTo(0.75, within(1e-12));
        assertThat(CompletionEval.identifierF1("", "")).isEqualTo(1);
        assertThat(CompletionEval.similarity("kitten", "sitting")).isCloseTo(1 - 3.0 / 7, within(1e-12));
    }

    /** Documents of a dataset are diffs, or files with their middle at the end: lines of neither are what somebody completes. */
    @Test
    void gapsAreInHeldOutAdditionsAndPassagesInReadingOrder() {
        Tokenizer tokenizer = Tokenizer.read(Path.of("..", "golden", "tokenizers", "starcoder2", "tokenizer.json"));
        Optional<FimTokens> markers = FimTokens.of(tokenizer);
        String before = "a.py\nimport os\n\ndef size(path):\n";
        String written = "    # written here\n    found = os.stat(path)\n    return found.st_size\n\ndef after():\n";
        String after = "    return None\n\nclass A:\n    pass\n";
        int[] around = FillInMiddle.of(tokenizer, Path.of("model"))
                .prompt(before, after, false)
                .ids();
        int[] middle = tokenizer.encode(written, false);
        int[] document =
                IntStream.concat(Arrays.stream(around), Arrays.stream(middle)).toArray();
        int[] commit = tokenizer.encode("<pr>Title: x<pr_diff>\n+  y\n-  z\n+  y\n+  w\n+  v\n+  u\n", false);
        List<CompletionEval.Passage> passages = CompletionEval.passages(List.of(commit, document), tokenizer, markers);
        assertThat(passages)
                .containsExactly(new CompletionEval.Passage(
                        before + written + after, before.length(), before.length() + written.length()));
        for (CompletionEval.Task task : CompletionEval.Task.values()) {
            List<CompletionEval.Gap> gaps = CompletionEval.gaps(task, passages, 20, markers);
            assertThat(gaps).isNotEmpty().doesNotHaveDuplicates().allSatisfy(gap -> {
                assertThat(written).contains(gap.middle());
                assertThat(gap.prefix() + gap.middle()).startsWith(before);
                assertThat(before + written + after).startsWith(gap.prefix() + gap.middle() + gap.suffix());
                boolean inside =
                        Character.isLetter(gap.prefix().charAt(gap.prefix().length() - 1));
                boolean letter = Character.isLetterOrDigit(gap.middle().charAt(0))
                        || gap.middle().charAt(0) == '_';
                switch (task) {
                    case NEXT_LINE, FIM_LINE, FIM_BLOCK ->
                        assertThat(gap.prefix()).endsWith("\n");
                    case MID_WORD, FIM_MID_WORD ->
                        assertThat(letter && !gap.prefix().endsWith("\n")).isTrue();
                    case WORD_END, FIM_WORD_END ->
                        assertThat(!letter && (inside || gap.prefix().matches("(?s).*\\w")))
                                .isTrue();
                }
            });
        }
    }

    @Test
    void theDifferenceOfPerplexitiesMatchesTheValues() {
        double[] tokens = new double[60];
        double[] base = new double[60];
        double[] tuned = new double[60];
        Arrays.setAll(tokens, i -> 10 + i % 3);
        Arrays.setAll(base, i -> tokens[i] * (2 + 0.1 * Philox.normal(4, 0, i)));
        Arrays.setAll(tuned, i -> base[i] - 0.5 * tokens[i]);
        BootstrapInterval difference = BootstrapInterval.perplexities(tuned, base, tokens);
        double mean = Arrays.stream(base).sum() / Arrays.stream(tokens).sum();
        assertThat(difference.value()).isCloseTo(Math.exp(mean - 0.5) - Math.exp(mean), within(1e-9));
        assertThat(difference.low()).isLessThan(difference.value());
        assertThat(difference.high()).isGreaterThan(difference.value()).isNegative();
    }
}
