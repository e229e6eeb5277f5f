package dev.starforge.text.fim;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class SuffixStopsTest {
    @Test
    void theRestOfTheLineAndTheLinesAfterIt() {
        assertThat(SuffixStops.of(");\n\n    return total;\n}\n").strings())
                .containsExactly(");\n\n    return total;\n", "\n    return total;\n");
        assertThat(SuffixStops.of(", maximum);\n}\n").strings()).containsExactly(", maximum);\n");
    }

    @Test
    void aSeparatorAfterTheCursor() {
        assertThat(SuffixStops.of(";\n}\n")).isEqualTo(new SuffixStops(List.of(";\n}\n"), List.of(";\n")));
        assertThat(SuffixStops.of(");").firstLine()).containsExactly(");\n");
        assertThat(SuffixStops.of(")\n").firstLine()).isEmpty();
    }

    @ParameterizedTest
    @CsvSource({
        "');\n    }\n', 'x -> {\n        bar();\n        baz();\n    }'",
        "';\n    return v;\n', 'switch (x) {\n        case 1:\n            foo();\n            yield 2;\n    }'",
        "');', 'x -> {\n    bar();\n}'",
    })
    void aMiddleOfSeveralLinesMayHaveLinesThatEndLikeTheCursors(String suffix, String middle) {
        String text = (middle + suffix).translateEscapes();
        assertThat(SuffixStops.of(suffix.translateEscapes()).strings())
                .allSatisfy(stop -> assertThat(text.indexOf(stop))
                        .isGreaterThanOrEqualTo(middle.translateEscapes().length()));
    }

    /** A closing bracket alone is what the middle may contain too; three lines of them are not. */
    @Test
    void shortLinesAreJoined() {
        assertThat(SuffixStops.of("\n    }\n    x = 1;\n  }\n}\n").strings())
                .containsExactly("\n    }\n    x = 1;\n  }\n");
        assertThat(SuffixStops.of("\n}\n    found = 1;\n").strings()).containsExactly("\n}\n    found = 1;\n");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "\n", ")", ");", ");\n", ")\n}\n", "\n\n  }\n"})
    void nothingThatTheMiddleMayContain(String suffix) {
        assertThat(SuffixStops.of(suffix).strings()).isEmpty();
    }

    @Test
    void longLinesAreCutBetweenCharacters() {
        String line = "x".repeat(126) + "🙂".repeat(10);
        assertThat(SuffixStops.of(line + "\n" + line).strings())
                .containsExactly("x".repeat(126) + "🙂", "\n" + "x".repeat(126));
    }
}
