package dev.starforge.train.eval;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class BehaviouralEvalTest {
    @Test
    void promptsAreInTheLanguagesOfMostFiles() {
        Map<String, Long> files = Map.of("markdown", 900L, "go", 5L, "java", 70L, "rust", 7L, "python", 8L);
        List<BehaviouralEval.Prompt> prompts = BehaviouralEval.prompts(RunConfig.defaults(), files);
        assertThat(prompts.stream().map(BehaviouralEval.Prompt::language).distinct())
                .containsExactly("java", "python", "rust");
        assertThat(prompts).hasSize(9);
        assertThat(BehaviouralEval.prompts(RunConfig.defaults(), Map.of("markdown", 900L)))
                .isEmpty();
    }

    @Test
    void promptsOfTheSettingsComeFirst() {
        RunConfig config = RunConfig.defaults().set(List.of("evaluation.prompts=[\"fn main() {\", \"struct A\"]"));
        assertThat(BehaviouralEval.prompts(config, Map.of("rust", 1L)))
                .containsExactly(
                        new BehaviouralEval.Prompt("rust", "fn main() {"),
                        new BehaviouralEval.Prompt("rust", "struct A"));
        assertThat(BehaviouralEval.prompts(config, Map.of()))
                .extracting(BehaviouralEval.Prompt::language)
                .containsOnly("");
        RunConfig named = config.set(List.of("evaluation.language=cpp"));
        assertThat(BehaviouralEval.prompts(named, Map.of("rust", 1L)))
                .extracting(BehaviouralEval.Prompt::language)
                .containsOnly("cpp");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '~',
            value = {
                "java   | void f() { g(a[0], \"}\") ; // }   | }",
                "java   | void f() { g(a[                    | ])}",
                "java   | class A { /* { */ char c = '{';    | }",
                "python | x = [1, (2, # ]                    | )]",
                "rust   | fn f<'a>(x: &'a str) { if true {   | }}",
                "cpp    | class A { void f() {               | }};",
                "go     | s := `{`                           | ~~",
            })
    void openBracketsAreClosed(String language, String text, String closing) {
        assertThat(BehaviouralEval.closing(language, text)).isEqualTo(closing);
    }

    /** A grammar that wants brackets in pairs. */
    private static final class Counting implements Evaluation.Tools {
        private final List<String> asked = new ArrayList<>();

        @Override
        public OptionalInt errors(String grammar, String text) {
            asked.add(text);
            return grammar.equals("java")
                    ? OptionalInt.of((int) (text.chars().filter(c -> c == '{').count()
                            - text.chars().filter(c -> c == '}').count()))
                    : OptionalInt.empty();
        }

        @Override
        public OptionalLong xz(byte[] text) {
            return OptionalLong.empty();
        }
    }

    @Test
    void theTruncatedEndIsClosedBeforeParsing() {
        Counting grammar = new Counting();
        BehaviouralEval.Prompt prompt = new BehaviouralEval.Prompt("java", "void f() {\n");
        assertThat(BehaviouralEval.parses(prompt, "  if (x) {\n    y = \"unfin", true, grammar))
                .contains(true);
        assertThat(grammar.asked).containsExactly("void f() {\n  if (x) {\n}}");
        assertThat(BehaviouralEval.parses(prompt, "}\n}\n", false, grammar)).contains(false);
        assertThat(BehaviouralEval.parses(prompt, "with with with", true, grammar))
                .contains(false); // not one line
        assertThat(BehaviouralEval.parses(prompt, "", false, grammar)).contains(false);
        assertThat(BehaviouralEval.parses(new BehaviouralEval.Prompt("", "x"), "y", false, grammar))
                .isEqualTo(Optional.empty());
        assertThat(BehaviouralEval.parses(new BehaviouralEval.Prompt("go", "x"), "y", false, grammar))
                .isEqualTo(Optional.empty());
    }

    @Test
    void theSettingHasTheLanguages() {
        assertThat(Keys.PROMPT_LANGUAGE.kind())
                .isEqualTo("one of null, " + BehaviouralEval.languages().collect(Collectors.joining(", ")));
    }
}
