package dev.starforge.text.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A stream shows whole characters only, takes nothing back, and ends as the whole decode. */
final class StreamTest {
    static Stream<String> names() {
        return Golden.NAMES.stream();
    }

    @ParameterizedTest
    @MethodSource("names")
    void streamingDecodeEqualsTheText(String name) {
        Tokenizer tokenizer = Golden.tokenizer(name);
        for (Golden.Case expected : Golden.cases(name)) {
            check(tokenizer, expected.ids());
        }
        RandomText random = RandomText.any(3);
        for (int i = 0; i < 300; i++) {
            check(tokenizer, tokenizer.encode(random.next(), true));
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void streamingDecodeOfArbitraryIdsEqualsDecode(String name) {
        Tokenizer tokenizer = Golden.tokenizer(name);
        Random random = new Random(11);
        for (int i = 0; i < 500; i++) {
            check(
                    tokenizer,
                    random.ints(random.nextInt(30), -1, tokenizer.size() + 1).toArray());
        }
    }

    /** At every split: what was shown is the beginning of the whole, and finishing there is the decode of the part. */
    private static void check(Tokenizer tokenizer, int[] ids) {
        for (boolean skipSpecial : new boolean[] {false, true}) {
            String whole = tokenizer.decode(ids, skipSpecial);
            List<String> pushed = new ArrayList<>();
            DecodeStream stream = tokenizer.stream(skipSpecial);
            for (int split = 0; split < ids.length; split++) {
                pushed.add(stream.push(ids[split]));
                String shown = String.join("", pushed);
                assertThat(whole).startsWith(shown);
                assertThat(shown).isEqualTo(Tokenizer.wellFormed(shown));
            }
            assertThat(String.join("", pushed) + stream.finish()).isEqualTo(whole);
            for (int split = 0; split < ids.length; split++) {
                DecodeStream part = tokenizer.stream(skipSpecial);
                StringBuilder text = new StringBuilder();
                for (int i = 0; i < split; i++) {
                    text.append(part.push(ids[i]));
                }
                int[] head = Arrays.copyOf(ids, split);
                assertThat(text.append(part.finish()).toString()).isEqualTo(tokenizer.decode(head, skipSpecial));
            }
        }
    }
}
