package dev.starforge.model.generate;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class LoopDetectorTest {
    /** Returns the length of the text at which the detector reports a loop, or -1. */
    private static int end(String text) {
        LoopDetector detector = new LoopDetector();
        for (int i = 0; i < text.length(); i++) {
            if (detector.push(text.substring(i, i + 1))) {
                return i + 1;
            }
        }
        return -1;
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "_line",
                "a",
                "        total += value;\n",
                "if (x) {\n    continue;\n}\n",
                "    /// Returns the number of the entries in the list of the paths that the walker has found so far.\n    pub fn count(&self)\n"
            })
    void threeRepetitionsEndTheText(String unit) {
        String before = "fn main() {\n    let x = 1;\n";
        int length = Math.max(48, 3 * unit.length());
        assertThat(end(before + unit.repeat(60)))
                .isBetween(before.length() + length - unit.length(), before.length() + length + unit.length());
        LoopDetector whole = new LoopDetector();
        assertThat(whole.push(before + unit.repeat(60))).isTrue();
    }

    @Test
    void codeIsNoLoop() {
        StringBuilder table = new StringBuilder("static final int[] TABLE = {\n");
        for (int i = 0; i < 60; i++) {
            table.append("    case ")
                    .append(i * 7919 % 1000)
                    .append(" -> values[")
                    .append(i)
                    .append("];\n");
        }
        assertThat(end(table.toString())).isNegative();
        assertThat(end("        }\n        }\n" + "=".repeat(100) + "\n" + " ".repeat(100) + "0, 0, 0, 0, 0,"))
                .isNegative();
        assertThat(end("-".repeat(400))).isEqualTo(240);
    }
}
