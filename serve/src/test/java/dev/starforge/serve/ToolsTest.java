package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.engine.ToolFormat;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** Calls of tools, told from the text around them. */
final class ToolsTest {
    private static final String TOOLS = "'tools':[{'type':'function','function':{'name':'look','parameters':{}}}]";

    private static Fixture fixture(ToolFormat format, String reply) throws Exception {
        return new Fixture(new FakeEngine(true, format).reply(reply), options -> options);
    }

    private static String chat(String more) {
        return "{'messages':[{'role':'user','content':'x'}]," + more + "}";
    }

    @Test
    void callsOfQwen() throws Exception {
        String reply =
                "Let me see.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"a<b\"}}\n</tool_call>\n"
                        + "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";
        try (Fixture fixture = fixture(ToolFormat.QWEN, reply)) {
            JsonNode choice =
                    fixture.post("/v1/chat/completions", chat(TOOLS)).json().at("/choices/0");
            assertThat(choice.at("/message/content").stringValue()).isEqualTo("Let me see.\n");
            assertThat(choice.at("/message/tool_calls")).hasSize(2);
            JsonNode call = choice.at("/message/tool_calls/0");
            assertThat(call.get("id").stringValue()).startsWith("call_");
            assertThat(call.get("type").stringValue()).isEqualTo("function");
            assertThat(call.at("/function/name").stringValue()).isEqualTo("look");
            assertThat(call.at("/function/arguments").stringValue()).isEqualTo("{\"at\":\"a<b\"}");
            assertThat(choice.get("finish_reason").stringValue()).isEqualTo("tool_calls");
            String prompt = FakeEngine.TOKENIZER.decode(
                    fixture.engine.requests.getFirst().prompt(), false);
            assertThat(prompt).startsWith("[{\"type\": \"function\"");

            List<JsonNode> chunks =
                    fixture.json(fixture.events("/v1/chat/completions", chat(TOOLS + ",'stream':true")));
            String text = chunks.stream()
                    .map(chunk -> chunk.at("/choices/0/delta/content").asString(""))
                    .collect(Collectors.joining());
            assertThat(text).isEqualTo("Let me see.\n");
            JsonNode calls = chunks.get(chunks.size() - 2).at("/choices/0/delta/tool_calls");
            assertThat(calls).hasSize(2);
            assertThat(calls.at("/1/index").intValue()).isEqualTo(1);
            assertThat(chunks.getLast().at("/choices/0/finish_reason").stringValue())
                    .isEqualTo("tool_calls");
        }
    }

    @Test
    void callsOfLlama3() throws Exception {
        try (Fixture fixture = fixture(ToolFormat.LLAMA3, " {\"name\": \"look\", \"parameters\": {\"at\": 1}}")) {
            JsonNode choice =
                    fixture.post("/v1/chat/completions", chat(TOOLS)).json().at("/choices/0");
            assertThat(choice.at("/message/content").isNull()).isTrue();
            assertThat(choice.at("/message/tool_calls/0/function/arguments").stringValue())
                    .isEqualTo("{\"at\":1}");
            assertThat(choice.get("finish_reason").stringValue()).isEqualTo("tool_calls");
        }
    }

    /** Text that begins like a call, and is none, is text; without tools everything is. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "QWEN|true|a < b and <tool and <tool_c",
                "QWEN|true|<tool_call>{'name': 5}</tool_call>",
                "QWEN|true|<tool_call> no JSON",
                "QWEN|false|<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>",
                "LLAMA3|true|{\"neither\": 1}",
                "LLAMA3|true|plain {\"name\": \"look\", \"parameters\": {}}",
                "LLAMA3|false|{\"name\": \"look\", \"parameters\": {}}",
            })
    void malformedToolCallsAreText(ToolFormat format, boolean tools, String reply) throws Exception {
        try (Fixture fixture = fixture(format, reply)) {
            String request = chat(tools ? TOOLS : TOOLS + ",'tool_choice':'none'");
            JsonNode choice =
                    fixture.post("/v1/chat/completions", request).json().at("/choices/0");
            assertThat(choice.at("/message/content").stringValue()).isEqualTo(reply);
            assertThat(choice.at("/message").has("tool_calls")).isFalse();
            assertThat(choice.get("finish_reason").stringValue()).isEqualTo("stop");
            String streamed = fixture
                    .json(fixture.events("/v1/chat/completions", request.replaceFirst("\\{", "{'stream':true,")))
                    .stream()
                    .map(chunk -> chunk.at("/choices/0/delta/content").asString(""))
                    .collect(Collectors.joining());
            assertThat(streamed).isEqualTo(reply);
        }
    }

    @Test
    void unsupportedFieldsAreRejected() throws Exception {
        try (Fixture fixture = fixture(ToolFormat.QWEN, "x")) {
            for (String more : List.of(
                    "'tools':5",
                    "'tools':[{}]",
                    TOOLS + ",'tool_choice':'required'",
                    TOOLS + ",'tool_choice':{'type':'function'}")) {
                assertThat(fixture.post("/v1/chat/completions", chat(more)).status())
                        .as(more)
                        .isEqualTo(400);
            }
        }
    }

    @Test
    void theArgumentsOfEarlierCallsAreObjects() throws Exception {
        try (Fixture fixture = fixture(ToolFormat.QWEN, "x")) {
            int status = fixture.post(
                            "/v1/chat/completions",
                            "{'messages':[{'role':'user','content':'x'},{'role':'assistant','content':null,'tool_calls':[{'id':'c','type':"
                                    + "'function','function':{'name':'look','arguments':'{}'}}]},{'role':'tool','tool_call_id':'c','content':'42'}]}")
                    .status();
            assertThat(status).isEqualTo(200);
        }
    }

    @Test
    void theFormatIsThatOfTheTemplate() {
        assertThat(ToolFormat.of("{% if tools %}<tool_call>{% endif %}")).isEqualTo(ToolFormat.QWEN);
        assertThat(ToolFormat.of("{% if tools %}<|start_header_id|>{% endif %}"))
                .isEqualTo(ToolFormat.LLAMA3);
        assertThat(ToolFormat.of("{% if tools %}[AVAILABLE_TOOLS]{% endif %}")).isEqualTo(ToolFormat.NONE);
        assertThat(ToolFormat.of("<|start_header_id|>")).isEqualTo(ToolFormat.NONE);
    }
}
