package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.text.json.Jackson;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** {@code /infill} as the editor clients use it: their requests, and what they look for in the answer. */
final class InfillTest {
    private Fixture fixture;

    @BeforeEach
    void start() throws Exception {
        fixture = new Fixture();
    }

    @AfterEach
    void stop() {
        fixture.close();
    }

    /** The answer to what llama.vim sent, and to what the source of llama.vscode says that it sends. */
    private String send(String client, String name) throws Exception {
        try (RawClient raw = fixture.raw()) {
            RawClient.Reply reply = Recorded.one(client, name).replay(raw);
            assertThat(reply.status()).as(reply.body()).isEqualTo(200);
            return reply.body();
        }
    }

    private String prompt() {
        return FakeEngine.TOKENIZER.decode(fixture.engine.requests.getFirst().prompt(), false);
    }

    @Test
    void llamaVimGetsASuggestion() throws Exception {
        fixture.engine.reply(" math.pi * r ** 2\n"); // with the space that is generated again
        String reply = send("llama-vim", "fim");
        // it looks for just this before it decodes anything
        assertThat(reply).matches("(?s)^\\s*\\{.*\"content\"\\s*:\".*");
        JsonNode answer = Jackson.JSON.readTree(reply);
        assertThat(answer.get("content").stringValue()).isEqualTo("math.pi * r ** 2\n");
        assertThat(answer.get("truncated").booleanValue()).isFalse();
        assertThat(answer.get("tokens_cached").intValue()).isPositive();
        for (String figure : List.of("n", "ms", "per_token_ms", "per_second")) {
            assertThat(answer.get("timings/prompt_" + figure).isNumber()).isTrue();
            assertThat(answer.get("timings/predicted_" + figure).isNumber()).isTrue();
        }
        assertThat(answer.propertyNames()).hasSize(11);
        assertThat(prompt())
                .startsWith("<file_sep>constants.py\nimport math\n\n# constants of geometry\n")
                .endsWith("    return radians / TAU\n<file_sep>file\n"
                        + "<fim_prefix><fim_suffix>\n\nprint(area(2))\n<fim_middle>"
                        + "import math\n\ndef area(r):\n    \"\"\"Area of a circle.\"\"\"\n    return");
        GenerationRequest request = fixture.engine.requests.getFirst();
        assertThat(request.maxTokens()).isEqualTo(128);
        assertThat(request.sampling().topK()).isEqualTo(40);
        assertThat(request.sampling().topP()).isEqualTo(0.9);
        assertThat(request.stop().tokens())
                .contains(FakeEngine.TOKENIZER.id("<file_sep>").orElseThrow());
    }

    @ParameterizedTest
    @CsvSource({"llama-vim", "llama-vscode"})
    void fillingTheCacheComputesNoToken(String client) throws Exception {
        JsonNode answer = Jackson.JSON.readTree(send(client, "cache"));
        assertThat(fixture.engine.computed()).isZero();
        assertThat(fixture.engine.requests.getFirst().maxTokens()).isZero();
        assertThat(answer.path("content").asString("")).isEmpty();
        assertThat(answer.isEmpty()).isEqualTo(client.equals("llama-vim"));
        assertThat(prompt()).startsWith("<file_sep>constants.py\nimport math\n");
    }

    /** Its instructions go to the chat: first, while a person types, to fill the cache; then as a stream. */
    @Test
    void llamaVimHasItsInstructionsFollowed() throws Exception {
        JsonNode begun = Jackson.JSON.readTree(send("llama-vim", "instruction begun"));
        assertThat(begun.at("/choices/0/message/content").stringValue()).isEmpty();
        assertThat(fixture.engine.computed()).isZero();
        assertThat(fixture.engine.requests.getFirst().maxTokens()).isZero();
        fixture.engine.reply("return math.pi * r * r");
        StringBuilder text = new StringBuilder();
        for (String event : send("llama-vim", "instruction").split("\n\n")) {
            if (event.startsWith("data: {")) {
                text.append(Jackson.JSON
                        .readTree(event.substring("data: ".length()))
                        .at("/choices/0/delta/content")
                        .asString(""));
            }
        }
        assertThat(text.toString()).isEqualTo("return math.pi * r * r");
        assertThat(fixture.engine.requests.getLast().sampling().minP()).isEqualTo(0.1);
    }

    @Test
    void llamaVscodeGetsThreeSuggestions() throws Exception {
        fixture.engine.reply(" math.pi * r ** 2\n"); // with the space that is generated again
        JsonNode answers = Jackson.JSON.readTree(send("llama-vscode", "fim"));
        assertThat(answers.isArray()).isTrue();
        assertThat(answers).hasSize(3);
        for (JsonNode answer : answers) {
            assertThat(answer.get("content").stringValue()).isEqualTo("math.pi * r ** 2\n");
            assertThat(answer.at("/timings/predicted_n").intValue()).isPositive();
        }
        assertThat(fixture.engine.requests.stream()
                        .map(request -> request.sampling().seed())
                        .distinct())
                .hasSize(3);
    }

    @Test
    void endsBeforeALineThatIsIndentedLess() throws Exception {
        fixture.engine.reply("x = 1\n    y = 2\n\n    return y\n\ndef g():\n    pass\n");
        JsonNode answer = fixture.post("/infill", "{'input_prefix':'','input_suffix':'','n_predict':100,'n_indent':4}")
                .json();
        assertThat(answer.get("content").stringValue()).isEqualTo("x = 1\n    y = 2\n\n    return y\n\n");
        assertThat(answer.get("stop_type").stringValue()).isEqualTo("limit");
        assertThat(answer.get("has_new_line").booleanValue()).isTrue();
    }

    @Test
    void endsWhenTimeIsUpAndALineIsWhole() throws Exception {
        fixture.engine.reply("a b c d\n" + "e f g h ".repeat(100)).step(Duration.ofMillis(5));
        JsonNode answer = fixture.post(
                        "/infill", "{'input_prefix':'','input_suffix':'','n_predict':500,'t_max_predict_ms':60}")
                .json();
        assertThat(answer.get("stop_type").stringValue()).isEqualTo("limit");
        assertThat(answer.get("content").stringValue()).startsWith("a b c d\n");
        assertThat(answer.get("tokens_predicted").intValue()).isLessThan(200);
    }

    /** Editors cut inside words. The answer is only what follows the cursor, and its first tokens spell what precedes it. */
    @Test
    void healsThePrefixUnlessAskedNotTo() throws Exception {
        String body = "{'input_prefix':'def f():\\n    retu','input_suffix':'\\n\\nf()\\n','n_predict':9%s}";
        fixture.engine.reply(" return 1");
        assertThat(fixture.post("/infill", body.formatted(""))
                        .json()
                        .get("content")
                        .stringValue())
                .isEqualTo("rn 1");
        GenerationRequest healed = fixture.engine.requests.getFirst();
        assertThat(prompt()).isEqualTo("<fim_prefix><fim_suffix>\n\nf()\n<fim_middle>def f():\n   ");
        assertThat(healed.healedPrompt().characters()).isEqualTo(" retu".length());
        assertThat(healed.healedPrompt().allowed()).isPresent();
        fixture.post("/infill", body.formatted(",'token_healing':false"));
        assertThat(FakeEngine.TOKENIZER.decode(fixture.engine.requests.getLast().prompt(), false))
                .isEqualTo("<fim_prefix>def f():\n    retu<fim_suffix>\n\nf()\n<fim_middle>");
        assertThat(fixture.engine.requests.getLast().healedPrompt().allowed()).isEmpty();
    }

    @Test
    void endsWhereItBeginsToRepeatTheSuffix() throws Exception {
        fixture.engine.reply("\n    x = 1\n    return total\n\ndef g():\n");
        String body = "{'input_prefix':'def f():\\n','input_suffix':'\\n    return total\\n','n_predict':50%s}";
        JsonNode answer = fixture.post("/infill", body.formatted("")).json();
        assertThat(answer.get("content").stringValue()).isEqualTo("    x = 1");
        assertThat(answer.get("stop_type").stringValue()).isEqualTo("word");
        answer = fixture.post("/infill", body.formatted(",'stop_repetition':false"))
                .json();
        assertThat(answer.get("content").stringValue()).endsWith("def g():\n");
    }

    @Test
    void theRestOfTheLineEndsTheFirstLineOnly() throws Exception {
        String body = "{'input_prefix':'list.forEach(','input_suffix':');\\n','n_predict':50,'token_healing':false}";
        fixture.engine.reply("bar);\n}\n");
        assertThat(fixture.post("/infill", body).json().get("content").stringValue())
                .isEqualTo("bar");
        String middle = "x -> {\n    bar();\n    baz();\n}";
        fixture.engine.reply(middle);
        assertThat(fixture.post("/infill", body).json().get("content").stringValue())
                .isEqualTo(middle);
    }

    @Test
    void endsWhenItGoesInCircles() throws Exception {
        fixture.engine.reply("x = 1\n" + "total += value\n".repeat(20));
        String body = "{'input_prefix':'','input_suffix':'','n_predict':500%s}";
        JsonNode answer = fixture.post("/infill", body.formatted("")).json();
        assertThat(answer.get("content").stringValue().length()).isBetween(45, 80);
        assertThat(answer.get("stop_type").stringValue()).isEqualTo("limit");
        answer = fixture.post("/infill", body.formatted(",'stop_repetition':false"))
                .json();
        assertThat(answer.get("content").stringValue()).hasSize(6 + 20 * 15);
    }

    @Test
    void endsAtAStopString() throws Exception {
        JsonNode answer = fixture.post(
                        "/infill", "{'input_prefix':'','input_suffix':'','n_predict':50,'stop':['world']}")
                .json();
        assertThat(answer.get("content").stringValue()).isEqualTo("Hello, ");
        assertThat(answer.get("stop_type").stringValue()).isEqualTo("word");
        assertThat(answer.get("stopping_word").stringValue()).isEqualTo("world");
    }

    @Test
    void streams() throws Exception {
        List<JsonNode> events = fixture.json(
                fixture.events("/infill", "{'input_prefix':'','input_suffix':'b','n_predict':50,'stream':true}"));
        String text =
                events.stream().map(event -> event.get("content").stringValue()).collect(Collectors.joining());
        assertThat(text).isEqualTo("Hello, world! This is a reply.");
        assertThat(events.getLast().get("stop").booleanValue()).isTrue();
        assertThat(events.getFirst().get("stop").booleanValue()).isFalse();
    }

    @Test
    void contextIsTruncatedFarFromTheCursor() throws Exception {
        String many = "word ".repeat(3000);
        JsonNode answer = fixture.post(
                        "/infill",
                        "{'input_prefix':'" + many + "LAST','input_suffix':'FIRST " + many + "','n_predict':10,"
                                + "'token_healing':false,"
                                + "'input_extra':[{'text':'" + many + "'},{'filename':'f','text':'NEAREST'}]}")
                .json();
        assertThat(answer.get("truncated").booleanValue()).isTrue();
        assertThat(fixture.engine.requests.getFirst().prompt().length).isLessThanOrEqualTo(FakeEngine.CONTEXT - 10);
        assertThat(prompt()).contains("LAST<fim_suffix>FIRST word").contains("<file_sep>f\nNEAREST<file_sep>");
    }

    /** A special token in a file is encoded as ordinary text. */
    @Test
    void snippetsCannotEndTheirFile() throws Exception {
        fixture.post(
                "/infill",
                "{'input_prefix':'','input_suffix':'','n_predict':1,"
                        + "'input_extra':[{'text':'x <file_sep> y <fim_middle>'}]}");
        long separators = Arrays.stream(fixture.engine.requests.getFirst().prompt())
                .filter(id -> id == FakeEngine.TOKENIZER.id("<file_sep>").orElseThrow())
                .count();
        assertThat(separators).isEqualTo(2);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "input_prefix|{'input_suffix':''}",
                "input_suffix|{'input_prefix':''}",
                "input_prefix|{'input_prefix':5,'input_suffix':''}",
                "input_extra|{'input_prefix':'','input_suffix':'','input_extra':'x'}",
                "input_extra|{'input_prefix':'','input_suffix':'','input_extra':[{'filename':'x'}]}",
                "input_extra|{'input_prefix':'','input_suffix':'','input_extra':[{'filename':1,'text':'x'}]}",
                "n_predict|{'input_prefix':'','input_suffix':'','n_predict':-2}",
                "n_cmpl|{'input_prefix':'','input_suffix':'','n_cmpl':99}",
                "t_max_predict_ms|{'input_prefix':'','input_suffix':'','t_max_predict_ms':1e99}",
                "samplers|{'input_prefix':'','input_suffix':'','samplers':[1]}",
            })
    void violationsNameTheField(String param, String json) throws Exception {
        Fixture.Reply reply = fixture.post("/infill", json);
        assertThat(reply.status()).isEqualTo(400);
        assertThat(reply.json().at("/error/param").stringValue()).isEqualTo(param);
    }

    @Test
    void samplersThatAreNotListedDoNothing() throws Exception {
        fixture.post(
                "/infill",
                "{'input_prefix':'','input_suffix':'','n_predict':1,'top_k':5,'top_p':0.5,'temperature':0.3,"
                        + "'samplers':['top_k','unknown']}");
        var some = fixture.engine.requests.getFirst().sampling();
        assertThat(some.topK()).isEqualTo(5);
        assertThat(some.topP()).isEqualTo(1);
        assertThat(some.temperature()).isEqualTo(1);
        fixture.post("/infill", "{'input_prefix':'','input_suffix':'','n_predict':1}");
        var all = fixture.engine.requests.get(1).sampling();
        assertThat(all.topK()).isEqualTo(40);
        assertThat(all.temperature()).isEqualTo(0.8);
    }

    @Test
    void unknownModelNamesAreTheBaseModel() throws Exception {
        assertThat(fixture.post("/infill", "{'input_prefix':'','input_suffix':'','model':'qwen'}")
                        .status())
                .isEqualTo(200);
    }

    @Test
    void tokens() throws Exception {
        int[] ids = FakeEngine.TOKENIZER.encode("Hello 鱼", false);
        JsonNode tokenized = fixture.post("/tokenize", "{'content':'Hello 鱼'}").json();
        assertThat(tokenized
                        .get("tokens")
                        .valueStream()
                        .mapToInt(JsonNode::intValue)
                        .toArray())
                .isEqualTo(ids);
        assertThat(tokenized.get("count").intValue()).isEqualTo(ids.length);
        JsonNode pieces = fixture.post("/tokenize", "{'content':'Hello','with_pieces':true}")
                .json();
        assertThat(pieces.get("tokens")
                        .valueStream()
                        .map(token -> token.get("piece").stringValue())
                        .collect(Collectors.joining()))
                .isEqualTo("Hello");
        assertThat(fixture.post("/tokenize", "{'prompt':'Hello'}")
                        .json()
                        .get("max_model_len")
                        .intValue())
                .isEqualTo(4096);
        JsonNode text = fixture.post("/detokenize", "{'tokens':" + tokenized.get("tokens") + "}")
                .json();
        assertThat(text.get("content").stringValue()).isEqualTo("Hello 鱼");
        assertThat(text.get("prompt").stringValue()).isEqualTo("Hello 鱼");
        assertThat(fixture.post("/tokenize", "{}").status()).isEqualTo(400);
        assertThat(fixture.post("/tokenize", "{'content':'<|endoftext|>'}")
                        .json()
                        .get("count")
                        .intValue())
                .isEqualTo(1);
        assertThat(fixture.post("/tokenize", "{'content':'<|endoftext|>','parse_special':false}")
                        .json()
                        .get("tokens")
                        .valueStream()
                        .mapToInt(JsonNode::intValue)
                        .toArray())
                .hasSizeGreaterThan(1)
                .doesNotContain(0);
        assertThat(fixture.post("/detokenize", "{'tokens':[-5]}").status()).isEqualTo(400);
        assertThat(fixture.post("/detokenize", "{'tokens':[12345678]}").status())
                .isEqualTo(400);
        assertThat(fixture.post("/detokenize", "{}").status()).isEqualTo(400);
    }
}
