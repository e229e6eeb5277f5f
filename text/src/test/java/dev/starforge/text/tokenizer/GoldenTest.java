package dev.starforge.text.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Exact on what the Rust library made of 57 texts, with four tokenizers. */
final class GoldenTest {
    static Stream<Arguments> cases() {
        return Golden.NAMES.stream().flatMap(name -> {
            Tokenizer tokenizer = Golden.tokenizer(name);
            return Golden.cases(name).stream().map(c -> Arguments.argumentSet(name + " " + c, tokenizer, c));
        });
    }

    @ParameterizedTest
    @MethodSource("cases")
    void encodesAndDecodesExactly(Tokenizer tokenizer, Golden.Case expected) {
        assertThat(tokenizer.encode(expected.text(), true)).isEqualTo(expected.ids());
        assertThat(tokenizer.encode(expected.text(), false)).isEqualTo(expected.idsNoSpecial());
        assertThat(tokenizer.decode(expected.idsNoSpecial(), false)).isEqualTo(expected.decoded());
        assertThat(tokenizer.decode(expected.idsNoSpecial(), true)).isEqualTo(expected.decodedSkipSpecial());
    }

    static Stream<String> names() {
        return Golden.NAMES.stream();
    }

    @ParameterizedTest
    @MethodSource("names")
    void tokensAndIdsAreInverse(String name) {
        Tokenizer tokenizer = Golden.tokenizer(name);
        assertThat(tokenizer.size())
                .isEqualTo(
                        Golden.json(name + "/expected.json").get("vocab_size").intValue());
        for (int id = 0; id < tokenizer.size(); id++) {
            assertThat(tokenizer.id(tokenizer.token(id))).hasValue(id);
        }
        assertThat(tokenizer.addedTokens()).allMatch(AddedToken::special).isNotEmpty();
    }
}
