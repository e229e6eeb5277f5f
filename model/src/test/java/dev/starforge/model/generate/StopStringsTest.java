package dev.starforge.model.generate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The outcome does not depend on where the text is cut, and nothing is held back longer than it must be. */
final class StopStringsTest {
    private record Outcome(String text, Optional<String> matched) {}

    @ParameterizedTest
    @CsvSource(
            quoteCharacter = '`',
            delimiter = '|',
            value = {
                "hello world | wor | `hello ` | wor",
                "hello world | lo,o w | hel | lo",
                "aaab | aab | a | aab",
                "abababc | ababc | ab | ababc",
                "abcd | bc,abcd | a | bc",
                "abcd | cd,abcd | `` | abcd",
                "abcd | abcd,cd | `` | abcd",
                "stop | stop | `` | stop",
                "no match here | stop,heres | no match here | ``",
                "almost sto | stop | almost sto | ``",
                "x🙂y🙃z | 🙃 | x🙂y | 🙃",
                "x🙂y | 🙃 | x🙂y | ``",
            })
    void endsAtTheFirst(String text, String stops, String shown, String matched) {
        List<String> strings = List.of(stops.split(","));
        Outcome expected = new Outcome(shown, matched.isEmpty() ? Optional.empty() : Optional.of(matched));
        int cuts = text.length() - 1;
        for (int mask = 0; mask < 1 << cuts; mask++) { // every way to cut the text
            assertThat(pushed(text, mask, strings))
                    .as("cut as %s", Integer.toBinaryString(mask))
                    .isEqualTo(expected);
        }
    }

    @Test
    void someStringsEndTheFirstLineOnly() {
        for (String text : List.of("a;\nb;\n", "a\nb;\n;\n")) {
            StopStrings stops = new StopStrings(List.of("x"), List.of(";\n"));
            StringBuilder shown = new StringBuilder();
            for (int i = 0; i < text.length() && stops.matched().isEmpty(); i++) {
                shown.append(stops.push(text.substring(i, i + 1)));
            }
            assertThat(shown.append(stops.finish()).toString()).isEqualTo(text.startsWith("a;") ? "a" : text);
        }
        assertThat(new StopStrings(List.of(), List.of(";\n")).push("a\n;")).isEqualTo("a\n;");
    }

    private static Outcome pushed(String text, int mask, List<String> strings) {
        StopStrings stops = new StopStrings(strings);
        StringBuilder shown = new StringBuilder();
        int start = 0;
        for (int end = 1; end <= text.length() && stops.matched().isEmpty(); end++) {
            if (end == text.length() || (mask >> (end - 1) & 1) == 1) {
                shown.append(stops.push(text.substring(start, end)));
                start = end;
            }
        }
        return new Outcome(shown.append(stops.finish()).toString(), stops.matched());
    }

    @Test
    void agreesWithASearchAndHoldsBackNoMoreThanNecessary() {
        Random random = new Random(1);
        for (int round = 0; round < 5000; round++) {
            List<String> strings = new ArrayList<>();
            for (int i = 1 + random.nextInt(4); i > 0; i--) {
                strings.add(letters(random, 1 + random.nextInt(4)));
            }
            String text = letters(random, random.nextInt(14));
            StopStrings stops = new StopStrings(strings);
            int shown = 0;
            for (int end = 1; end <= text.length() && stops.matched().isEmpty(); end++) {
                String now = text.substring(0, end);
                String piece = stops.push(text.substring(end - 1, end));
                assertThat(now.substring(shown)).startsWith(piece);
                shown += piece.length();
                Optional<String> complete =
                        strings.stream().filter(now::endsWith).max((a, b) -> Integer.compare(a.length(), b.length()));
                assertThat(stops.matched()).as("%s in %s", strings, now).isEqualTo(complete);
                int kept = end - shown;
                if (complete.isPresent()) {
                    assertThat(kept).isEqualTo(complete.get().length());
                } else {
                    String held = now.substring(shown);
                    assertThat(strings).anyMatch(string -> held.isEmpty() || string.startsWith(held));
                    for (int from = 0; from < shown; from++) {
                        String gone = now.substring(from);
                        assertThat(strings).noneMatch(string -> string.startsWith(gone));
                    }
                }
            }
        }
    }

    private static String letters(Random random, int length) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++) {
            text.append((char) ('a' + random.nextInt(2)));
        }
        return text.toString();
    }

    @Test
    void withoutStringsAllPasses() {
        StopStrings stops = new StopStrings(List.of());
        assertThat(stops.push("abc")).isEqualTo("abc");
        assertThat(stops.finish()).isEmpty();
        assertThat(stops.matched()).isEmpty();
    }

    @Test
    void nothingFollowsAMatch() {
        StopStrings stops = new StopStrings(List.of("b"));
        assertThat(stops.push("abc")).isEqualTo("a");
        assertThat(stops.finish()).isEmpty();
        assertThatThrownBy(() -> stops.push("d")).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void limitsAreKept() {
        new StopStrings(Collections.nCopies(16, "🙂".repeat(128)));
        assertThatThrownBy(() -> new StopStrings(Collections.nCopies(17, "a")))
                .isInstanceOf(GenerationException.class)
                .hasMessage("stop: expected at most 16 strings, got 17");
        assertThatThrownBy(() -> new StopStrings(List.of("", "a".repeat(129))))
                .isInstanceOf(GenerationException.class)
                .hasMessage("stop: expected strings of 1 to 128 characters, got one of 0; "
                        + "stop: expected strings of 1 to 128 characters, got one of 129");
        assertThatThrownBy(() -> new StopStrings(List.of("a\ud83d")))
                .isInstanceOf(GenerationException.class)
                .hasMessageContaining("half a surrogate pair");
    }
}
