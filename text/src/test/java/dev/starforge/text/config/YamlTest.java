package dev.starforge.text.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.ScalarNode;

final class YamlTest {
    @Test
    void nestingHasALimitLongBeforeTheStackHas() {
        for (String deep : new String[] {"[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000)}) {
            assertThatThrownBy(() -> Yaml.compose("x", deep))
                    .isInstanceOf(YamlEngineException.class)
                    .hasMessageContaining("expected at most 64 levels of nesting");
        }
        assertThat(Yaml.compose("x", "[".repeat(60) + "]".repeat(60))).isPresent();
    }

    @Test
    void recursiveAliasesAreRejected() {
        assertThatThrownBy(() -> Yaml.compose("x", "model: &a {b: *a}"))
                .isInstanceOf(YamlEngineException.class)
                .hasMessageContaining("*a is inside what it stands for");
        assertThat(Yaml.compose("x", "a: &a [1]\nb: *a")).isPresent();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"a\nb", "tab\there", "\"\\", "\u0001\u007f\u0085\u2028", "# no comment", " x ", "\r\n", "é😀"})
    void quotedTextReadsBackAsItIs(String text) {
        ScalarNode node = (ScalarNode) Yaml.compose("x", Yaml.quoted(text)).orElseThrow();
        assertThat(node.getValue()).isEqualTo(text);
        assertThat(Yaml.quoted(text)).doesNotContain("\n");
    }
}
