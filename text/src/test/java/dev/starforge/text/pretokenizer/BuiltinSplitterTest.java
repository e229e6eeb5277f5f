package dev.starforge.text.pretokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.text.tokenizer.RandomText;
import dev.starforge.text.tokenizer.Sources;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A hand-written scanner cuts where its regular expression does. */
final class BuiltinSplitterTest {
    @ParameterizedTest
    @EnumSource(BuiltinSplitter.class)
    void equalsItsExpression(BuiltinSplitter scanner) {
        Splitter regex = new Splitter.Regex(Onig.compile(scanner.expression()));
        RandomText random = RandomText.any(scanner.ordinal());
        for (int i = 0; i < 5000; i++) {
            char[] text = random.next().toCharArray();
            assertThat(ends(scanner, text)).as(new String(text)).isEqualTo(ends(regex, text));
        }
        for (String source : Sources.texts()) {
            assertThat(ends(scanner, source.toCharArray())).isEqualTo(ends(regex, source.toCharArray()));
        }
    }

    private static List<Integer> ends(Splitter splitter, char[] text) {
        MatchSpans splits = new MatchSpans();
        PatternBudget budget = new PatternBudget(Path.of("test"));
        budget.begin(text.length);
        splitter.split(text, 0, text.length, budget, splits);
        List<Integer> ends = new ArrayList<>();
        for (int i = 0; i < splits.size(); i++) {
            ends.add(splits.end(i));
        }
        return ends;
    }
}
