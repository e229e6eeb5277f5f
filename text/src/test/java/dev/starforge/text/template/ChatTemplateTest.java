package dev.starforge.text.template;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Templates of the shapes that our families have, and every construct by itself; expected texts are those of Jinja2 3.1. */
final class ChatTemplateTest {
    private static final Path FILE = Path.of("model");
    private static final Map<String, String> TOKENS = Map.of("bos_token", "<s>", "eos_token", "</s>");
    private static final String TALK = """
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi "},
         {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]\
        """;

    private static JsonNode json(String text) {
        return new JsonMapper().readTree(text);
    }

    private static String render(String template, String messages, boolean asks) {
        return ChatTemplate.parse(FILE, template, TOKENS).render(json(messages), asks);
    }

    /** As Qwen has it: a system message of its own, tools that are not defined, minus signs everywhere. */
    @Test
    void chatMl() {
        String template = """
            {%- if tools %}
                {{- 'tools' }}
            {%- else %}
                {%- if messages[0]['role'] == 'system' %}
                    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
                {%- else %}
                    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
                {%- endif %}
            {%- endif %}
            {%- for message in messages %}
                {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
                    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
                {%- endif %}
            {%- endfor %}
            {%- if add_generation_prompt %}
                {{- '<|im_start|>assistant\\n' }}
            {%- endif %}
            """;
        assertThat(render(template, TALK, true))
                .isEqualTo("<|im_start|>system\n"
                        + "Be brief.<|im_end|>\n"
                        + "<|im_start|>user\n"
                        + " Hi <|im_end|>\n"
                        + "<|im_start|>assistant\n"
                        + "Hello<|im_end|>\n"
                        + "<|im_start|>user\n"
                        + "Bye<|im_end|>\n"
                        + "<|im_start|>assistant\n");
        assertThat(render(template, "[{\"role\": \"user\", \"content\": \"x\"}]", false))
                .isEqualTo("<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nx<|im_end|>\n");
    }

    /** As Llama 3 has it: one line, trimmed content, the first message after a BOS. */
    @Test
    void headersAndTrimming() {
        String template = "{% set loop_messages = messages %}{% for message in loop_messages %}"
                + "{% set content = '<|h|>' + message['role'] + '<|/h|>\n\n' + message['content'] | trim + '<|e|>' %}"
                + "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
                + "{% if add_generation_prompt %}{{ '<|h|>assistant<|/h|>\n\n' }}{% endif %}";
        assertThat(render(template, TALK, true))
                .isEqualTo("<s><|h|>system<|/h|>\n\n"
                        + "Be brief.<|e|><|h|>user<|/h|>\n\n"
                        + "Hi<|e|><|h|>assistant<|/h|>\n\n"
                        + "Hello<|e|><|h|>user<|/h|>\n\n"
                        + "Bye<|e|><|h|>assistant<|/h|>\n\n");
    }

    /** As Mistral has it: roles that must alternate, the system message before the last or first question. */
    @Test
    void alternatingRoles() {
        String template = """
            {%- if messages[0]["role"] == "system" %}
                {%- set system_message = messages[0]["content"] %}
                {%- set loop_messages = messages[1:] %}
            {%- else %}
                {%- set loop_messages = messages %}
            {%- endif %}
            {{- bos_token }}
            {%- for message in loop_messages %}
                {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
                    {{- raise_exception('roles must alternate') }}
                {%- endif %}
                {%- if message["role"] == "user" %}
                    {%- if loop.first and system_message is defined %}
                        {{- " [INST] " + system_message + "\\n\\n" + message["content"] + " [/INST]" }}
                    {%- else %}
                        {{- " [INST] " + message["content"] + " [/INST]" }}
                    {%- endif %}
                {%- elif message["role"] == "assistant" %}
                    {{- " " + message["content"] + eos_token }}
                {%- else %}
                    {{- raise_exception("only user and assistant") }}
                {%- endif %}
            {%- endfor %}
            """;
        assertThat(render(template, TALK, false))
                .isEqualTo("<s> [INST] Be brief.\n\n Hi  [/INST] Hello</s> [INST] Bye [/INST]");
        assertThatThrownBy(() -> render(template, "[{\"role\": \"assistant\", \"content\": \"x\"}]", false))
                .isInstanceOf(ChatTemplateException.class)
                .hasMessage("model: chat template: line 10: refuses the conversation: roles must alternate");
    }

    /** As Phi 3 has it: line ends after blocks count for nothing, those after outputs do. */
    @Test
    void lineEnds() {
        String template = """
            {% for message in messages %}
              {% if message['role'] == 'user' %}
            {{'<|user|>' + '\\n' + message['content'] + '<|end|>'}}
              {% elif message['role'] == 'assistant' %}
              {{'<|assistant|>' + '\\n' + message['content'] + '<|end|>'}}
              {% endif %}
            {% endfor %}
            {% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}
            """;
        assertThat(render(template, TALK, false))
                .isEqualTo("<|user|>\n Hi <|end|>\n  <|assistant|>\nHello<|end|>\n<|user|>\nBye<|end|>\n</s>");
    }

    /** As DeepSeek has it: a namespace that a loop fills, and thoughts that are cut off. */
    @Test
    void namespaces() {
        String template = "{% set ns = namespace(system='', first=true) %}{% for m in messages %}{% if m.role =="
                + " 'system' %}{% set ns.system = ns.system ~ m.content %}{% endif %}{% endfor %}{{ bos_token ~ ns.system"
                + " }}{% for m in messages if m.role != 'system' %}{% set c = m.content.split('</think>')[-1] %}{{ ('U:'"
                + " if m.role == 'user' else 'A:') + c }}{% endfor %}";
        assertThat(render(template, TALK, false)).isEqualTo("<s>Be brief.U: Hi A:HelloU:Bye");
        assertThat(render(template, "[{\"role\": \"assistant\", \"content\": \"<think>x</think>y\"}]", false))
                .isEqualTo("<s>A:y");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            ignoreLeadingAndTrailingWhitespace = true,
            value = {
                "`{{ 1 + 2 * 3 - 8 // 3 % 2 }}` | 7",
                "`{{ 7 / 2 }}` | 3.5",
                "`{{ -7 // 2 }}{{ -7 % 3 }}` | -42",
                "`{{ 'a' ~ 1 ~ true ~ none }}` | a1TrueNone",
                "`{{ 'a' in 'cat' and 'x' not in ['y'] }}` | True",
                "`{{ messages[1:3] | length }}{{ messages[::-1][0].content }}{{ messages[-1]['role'] }}` | 2Byeuser",
                "`{{ 'abcdef'[1:-1] }}{{ 'abc'[-1] }}` | bcdec",
                "`{{ missing is defined }}{{ missing is not defined }}{{ messages is iterable }}` | FalseTrueTrue",
                "`{{ missing | default('d') }}{{ '' | default('e', true) }}` | de",
                "`{{ messages[0] | tojson }}` | `{\"role\": \"system\", \"content\": \"Be brief.\"}`",
                "`{{ [1, 2.5, 'x', none, {'a': true}] | tojson }}` | `[1, 2.5, \"x\", null, {\"a\": true}]`",
                "`{{ messages | selectattr('role', 'equalto', 'user') | list | length }}` | 2",
                "`{{ ' x '.strip() + 'Ab'.upper() + 'Ab'|lower + 'a b'.title() }}` | xABabA B",
                "`{{ 'xxaxx'.strip('x') + 'a-b-c'.split('-', 1)[1] + 'aXa'.replace('X', '.') }}` | ab-ca.a",
                "`{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{{ ',' if not loop.last }}{% endfor %}` |"
                        + " a1,b2",
                "`{% for i in range(3) %}{{ loop.index }}{{ loop.revindex }}{% else %}none{% endfor %}` | 132231",
                "`{% for i in [] %}x{% else %}none{% endfor %}` | none",
                "`{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}` | 1",
                "`{% set x %}a{{ 1 }}b{% endset %}{{ x }}` | a1b",
                "`{# nothing #}a{#- nothing -#} b` | ab",
                "`{{ messages[0].get('role') }}{{ messages[0].get('x', 'y') }}{{ messages[0].x is undefined }}` |"
                        + " systemyTrue",
                "`{{ (1, ) if false else 2 }}{{ 'b' in ('a', 'b') }}{{ () | length }}` | 2True0",
                "`{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}` | TrueFalse",
                "`{{ 'ab' * 2 }}{{ 'aXbX'.replace('X', '-', 1) }}{{ ', '.join(['a', 'b']) }}` | ababa-bXa, b",
                "`{% for x in missing %}x{% else %}none{% endfor %}{{ missing | length }}` | none0",
                "`{% macro f(x, y='d') %}[{{ x }}{{ y }}]{% endmacro %}{{ f(1) }}{{ f(y=2, x=3) }}{{ f() }}` |"
                        + " [1d][32][d]",
                "`{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}` | 2",
                "`{{ ['b', 'a'] | sort | join }}{{ [{'n': 1}, {'n': 2}] | map(attribute='n') | join('-') }}` | ab1-2",
                "`{{ {'b': 1, 'a': [2]} | tojson(sort_keys=true, separators=(',', ':')) }}` | `{\"a\":[2],\"b\":1}`",
                "`{{ '\\u00e4\\x41\\d' }}` | `äA\\d`",
                "`{{ not messages == [] or false }}{{ 1 if '' else 0 }}` | True0",
                "`{{ 'it''s' }}` | its",
            })
    void constructs(String template, String expected) {
        assertThat(render(template, TALK, false)).isEqualTo(expected);
    }

    @Test
    void indentedJson() {
        assertThat(render("{{ {'a': [1, {'b': []}], 'c': 'ü'} | tojson(indent=2, ensure_ascii=false) }}", "[]", false))
                .isEqualTo("{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": \"ü\"\n}");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '~',
            value = {
                "~a\n{% call f() %}{% endcall %}~    | line 2: block call is not known",
                "~{% macro f(x) %}{% endmacro %}{{ f(1, 2) }}~ | line 1: f: expected at most 1 arguments, got 2",
                "~{% macro f(x) %}{% endmacro %}{{ f(y=1) }}~ | line 1: f: argument y is not known",
                "~{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}~ | nests too deeply",
                "~{% break %}~                       | line 1: break outside of a loop",
                "~{% include 'x' %}~                 | line 1: block include is not known",
                "~{{ x | xmlattr }}~                 | line 1: filter xmlattr is not known",
                "~{{ 'x'.format(1) }}~               | line 1: method format of a string is not known",
                "~{{ strftime_now('%d') }}~          | line 1: function strftime_now is not known",
                "~{{ x is escaped }}~                | line 1: test escaped is not known",
                "~{{ messages.__class__ }}~          | ~~",
                "~{{ a.b }}~                         | line 1: asks for b of something that is not defined",
                "~{{ 'a' + 1 }}~                     | line 1: + between a string and a number",
                "~{{ 'a }}~                          | line 1: a string without an end",
                "~{% if true %}x~                    | line 1: expected endif, got the end",
                "~{{ 1 +~                            | line 1: a bracket without an end",
                "~{{ messages }}~                    | a list has no text of its own; use tojson",
                "~{% for i in range(9999999) %}{% endfor %}~ | line 1: range: too long",
                "~{% for i in range(9000) %}{% for j in range(90) %}{{ '0123456789' * 9 }}{% endfor %}{% endfor %}~ |"
                        + " writes more than",
                "~{% set x.y = 1 %}~                 | line 1: x is no namespace",
                "~{{ 1|tojson(sort=2) }}~            | line 1: tojson: argument sort is not known",
                "~{{ x|default(value=2) }}~          | line 1: default: argument value is not known",
                "~{{ 99999999999999999999 }}~        | line 1: 99999999999999999999 is no number",
            })
    void unsupportedConstructsAreRejected(String template, String message) {
        if (message.isEmpty()) {
            assertThat(render(template, TALK, false)).isEmpty();
        } else {
            assertThatThrownBy(() -> render(template, TALK, false))
                    .isInstanceOf(ChatTemplateException.class)
                    .hasMessageContaining("model: chat template: ")
                    .hasMessageContaining(message);
        }
    }

    /** None of these ends by itself within a reasonable time or memory. */
    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            value = {
                "steps;{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
                "steps;{% for a in range(9999) %}{% for b in range(9999) if false %}{% endfor %}{% endfor %}",
                "characters;{% for a in range(9999) %}{% for b in range(99) %}{{ '0123456789' * 9 }}{% endfor %}{%"
                        + " endfor %}",
                "characters;{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor"
                        + " %}",
                "characters;{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor"
                        + " %}",
                "characters;{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = n.x | replace('', n.x)"
                        + " %}{% endfor %}",
                "steps;{% set n = namespace(x=[1]) %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
                "characters;{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = range(999) | join(n.x)"
                        + " %}{% endfor %}",
                "characters;{{ 'abcdefgh' * 9999999 }}",
                "steps;{% set n = namespace(x='ab') %}{% for a in range(22) %}{% set n.x = n.x + n.x %}{% endfor %}{%"
                        + " for a in range(9999) %}{% if 'c' in n.x %}{% endif %}{% endfor %}",
                "steps;{% set n = namespace(x=[1], y=[1]) %}{% for a in range(99) %}{% set n.x = [n.x, n.x] %}{% set"
                        + " n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
                "steps;{% set n = namespace(x=[1]) %}{% for a in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{"
                        + " n.x | tojson }}",
                "steps;{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
            })
    void hostileTemplatesEnd(String limit, String template) {
        assertThatThrownBy(() -> render(template, TALK, false))
                .isInstanceOf(ChatTemplateException.class)
                .hasMessageContaining("more than")
                .hasMessageContaining(limit);
    }

    @Test
    void toolsAreDefinedOnlyIfPresent() {
        String template = "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% else %}none{% endif %}";
        ChatTemplate parsed = ChatTemplate.parse(FILE, template, TOKENS);
        assertThat(parsed.render(json(TALK), true)).isEqualTo("none");
        assertThat(parsed.render(json(TALK), List.of(json("{\"a\": [1]}")), true))
                .isEqualTo("{\"a\": [1]}");
    }
}
