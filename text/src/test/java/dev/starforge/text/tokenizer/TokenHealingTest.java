package dev.starforge.text.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.BitSet;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class TokenHealingTest {
    private static final String TEXT = """
        def read(path, größe=10):
            with open(path) as file:

                for line in file:
                    if not line.startswith("#"):  # nothing 鱼 there
                        return int(line) + 1234

        class Reader(object):
        \tdef __init__(self):
        \t\tself.items = []
        """;

    /** Wherever a text is cut, what it really goes on with is allowed, and only what is new is told. */
    @ParameterizedTest
    @ValueSource(strings = {"starcoder2", "llama3", "qwen2", "llama2"})
    void theOriginalContinuationIsAllowedAtEveryCut(String name) {
        Tokenizer tokenizer = Golden.tokenizer(name);
        int[] whole = tokenizer.encode(TEXT, true);
        int healed = 0;
        for (int cut = 1; cut < TEXT.length(); cut++) {
            if (Character.isLowSurrogate(TEXT.charAt(cut))) {
                continue;
            }
            int[] cutIds = tokenizer.encode(TEXT.substring(0, cut), true);
            HealedPrompt prompt = tokenizer.heal(cutIds);
            int kept = prompt.ids().length;
            if (kept == cutIds.length || Arrays.mismatch(prompt.ids(), whole) < kept) {
                continue; // nothing to heal, or a word of more tokens than are taken back
            }
            healed++;
            CompletionDecodeStream stream = new CompletionDecodeStream(tokenizer, prompt);
            StringBuilder told = new StringBuilder();
            for (int at = kept; at < whole.length; at++) {
                Optional<BitSet> allowed = prompt.allowed(Arrays.copyOfRange(whole, kept, at));
                int next = whole[at];
                assertThat(allowed.isEmpty() || allowed.get().get(next))
                        .as("%s after %s", tokenizer.token(next), TEXT.substring(0, cut))
                        .isTrue();
                told.append(stream.push(next));
            }
            assertThat(told.append(stream.finish())).hasToString(TEXT.substring(cut));
        }
        assertThat(healed).isGreaterThan(TEXT.length() / 2);
    }

    /** The first tokens that some text has which begins with the prompt's end; found by trying, up to so many characters. */
    private static Set<Integer> firsts(Tokenizer tokenizer, String text, int kept, String alphabet, int more) {
        Set<Integer> firsts = new TreeSet<>(Set.of(tokenizer.encode(text, true)[kept]));
        if (more > 0) {
            for (char c : alphabet.toCharArray()) {
                firsts.addAll(firsts(tokenizer, text + c, kept, alphabet, more - 1));
            }
        }
        return firsts;
    }

    @ParameterizedTest
    @ValueSource(strings = {"x = 1\n    ", "x = 1\n\n  ", "def r", "a.st", "return ", "f(", "x = \"\""})
    void shorterAllowedTokensBeginTheEncodingOfSomeText(String text) {
        Tokenizer tokenizer = Golden.tokenizer("starcoder2");
        HealedPrompt prompt = tokenizer.heal(tokenizer.encode(text, true));
        Set<Integer> tried = firsts(tokenizer, text, prompt.ids().length, " \nraets(\"1", 3);
        Set<Integer> allowed = prompt.allowed().orElseThrow().stream().boxed().collect(Collectors.toSet());
        assertThat(allowed).containsAll(tried);
        int taken = prompt.characters();
        assertThat(tried)
                .containsAll(allowed.stream()
                        .filter(id -> tokenizer.bytes(id).length < taken)
                        .toList());
    }

    @Test
    void aLineBreakIsNotAllowedWhereItsIndentationMustFollow() {
        Tokenizer tokenizer = Golden.tokenizer("starcoder2");
        HealedPrompt prompt = tokenizer.heal(tokenizer.encode("if x:\n    ", true));
        BitSet allowed = prompt.allowed().orElseThrow();
        assertThat(prompt.characters()).isEqualTo(5);
        assertThat(allowed.get(tokenizer.id("Ċ").orElseThrow())).isFalse();
        assertThat(allowed.get(tokenizer.encode("if x:\n    return", true)[prompt.ids().length]))
                .isTrue();
    }

    @Test
    void unambiguousTokensAreKept() {
        Tokenizer tokenizer = Golden.tokenizer("starcoder2");
        int[] marked = {tokenizer.encode("a", false)[0], 0};
        assertThat(tokenizer.heal(marked).ids()).isSameAs(marked);
        assertThat(tokenizer.heal(marked[0]).ids()).containsExactly(marked[0]);
    }
}
