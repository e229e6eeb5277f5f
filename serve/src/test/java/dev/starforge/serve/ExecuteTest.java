package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.engine.FinishReason;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** The worker's own API for text. */
final class ExecuteTest {
    private static String text(List<JsonNode> events) {
        return events.stream()
                .filter(event -> event.get("type").stringValue().equals("token"))
                .map(event -> event.get("t").stringValue())
                .collect(Collectors.joining());
    }

    private static String types(List<JsonNode> events) {
        return events.stream()
                .map(event -> event.get("type").stringValue())
                .distinct()
                .collect(Collectors.joining(" "));
    }

    @Test
    void eventsInOrder() throws Exception {
        try (Fixture fixture = new Fixture()) {
            List<JsonNode> events = fixture.json(
                    fixture.events("/execute", "{'job_id':'j1','prompt':'Say it','max_tokens':100,'temperature':0}"));
            assertThat(types(events)).isEqualTo("started token metrics end");
            assertThat(text(events)).isEqualTo("Hello, world! This is a reply.");
            JsonNode started = events.getFirst();
            assertThat(started.get("job_id").stringValue()).isEqualTo("j1");
            assertThat(started.get("model").stringValue()).isEqualTo("fake");
            assertThat(started.get("started_at").stringValue()).endsWith("Z");
            for (int i = 1; i < events.size() - 2; i++) {
                assertThat(events.get(i).get("i").intValue()).isEqualTo(i - 1);
            }
            JsonNode end = events.getLast();
            assertThat(end.get("stop_reason").stringValue()).isEqualTo("EOS");
            assertThat(end.get("tokens_out").intValue()).isEqualTo(events.size() - 3);
            assertThat(end.has("decode_time_ms")).isTrue();
            assertThat(end.has("stop_sequence_matched")).isFalse();
            assertThat(events.get(events.size() - 2).get("memory_bytes").longValue())
                    .isEqualTo(123_456);
        }
    }

    @Test
    void samplingParametersReachTheEngine() throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.events(
                    "/execute",
                    "{'job_id':'j','prompt_tokens':[5,6,7],'max_tokens':3,'temperature':0.5,'seed':9,'top_p':0.9,"
                            + "'top_k':7,'min_p':0.1,'repetition_penalty':1.2,'stop':['x']}");
            var request = fixture.engine.requests.getFirst();
            assertThat(request.prompt()).containsExactly(5, 6, 7);
            assertThat(request.maxTokens()).isEqualTo(3);
            assertThat(request.sampling().temperature()).isEqualTo(0.5);
            assertThat(request.sampling().seed()).isEqualTo(9);
            assertThat(request.sampling().topP()).isEqualTo(0.9);
            assertThat(request.sampling().topK()).isEqualTo(7);
            assertThat(request.sampling().minP()).isEqualTo(0.1);
            assertThat(request.sampling().repetitionPenalty()).isEqualTo(1.2);
        }
    }

    @Test
    void endsAtMaxTokens() throws Exception {
        try (Fixture fixture = new Fixture()) {
            List<JsonNode> events =
                    fixture.json(fixture.events("/execute", "{'job_id':'j','prompt':'x','max_tokens':2}"));
            assertThat(events.getLast().get("stop_reason").stringValue()).isEqualTo("MAX_TOKENS");
            assertThat(events.getLast().get("tokens_out").intValue()).isEqualTo(2);
        }
    }

    @Test
    void stopStringsAcrossTokensEndTheTextAndAreRemoved() throws Exception {
        try (Fixture fixture = new Fixture()) {
            List<JsonNode> events = fixture.json(fixture.events(
                    "/execute", "{'job_id':'j','prompt':'x','max_tokens':50,'stop':['nothing','ld! Th']}"));
            assertThat(text(events)).isEqualTo("Hello, wor");
            JsonNode end = events.getLast();
            assertThat(end.get("stop_reason").stringValue()).isEqualTo("STOP_SEQUENCE");
            assertThat(end.get("stop_sequence_matched").stringValue()).isEqualTo("ld! Th");
            assertThat(fixture.engine.computed())
                    .isEqualTo(end.get("tokens_out").intValue());
        }
    }

    /** Each of these is several tokens of bytes; no event may have a part of one. */
    @Test
    void charactersAreNeverSplit() throws Exception {
        String reply = "鱼 🙂🙃 Ünïcödé ﷽ 𝔘𝔫𝔦";
        try (Fixture fixture = new Fixture()) {
            fixture.engine.reply(reply);
            List<JsonNode> events =
                    fixture.json(fixture.events("/execute", "{'job_id':'j','prompt':'x','max_tokens':200}"));
            assertThat(text(events)).isEqualTo(reply);
            assertThat(events.stream()
                            .filter(event -> event.has("t"))
                            .map(event -> event.get("t").stringValue()))
                    .noneMatch(text -> text.contains("\uFFFD"))
                    .anyMatch(String::isEmpty);
        }
    }

    @Test
    void theFirstTokenIsOnTheWireBeforeTheSecondIsComputed() throws Exception {
        try (Fixture fixture = new Fixture();
                RawClient client = fixture.raw()) {
            fixture.engine.hold(1);
            client.post("/execute", Fixture.quoted("{'job_id':'j','prompt':'x','max_tokens':50}"))
                    .openStream();
            assertThat(client.event()).contains("started");
            assertThat(client.event()).contains("\"i\":0");
            assertThat(fixture.engine.computed()).isEqualTo(1);
            fixture.engine.release();
            assertThat(client.event()).contains("\"i\":1");
        }
    }

    @Test
    void allViolationsAtOnce() throws Exception {
        try (Fixture fixture = new Fixture()) {
            Fixture.Reply reply = fixture.post(
                    "/execute",
                    "{'prompt':'my secret"
                            + " prompt','prompt_tokens':[1],'max_tokens':0,'temperature':9,'top_p':0,'top_k':1.5,"
                            + "'seed':'x','stop':['',5],'adapter':'nobody','tempratur':1}");
            assertThat(reply.status()).isEqualTo(400);
            assertThat(reply.response().body()).doesNotContain("secret prompt");
            List<String> fields = reply.json()
                    .get("errors")
                    .valueStream()
                    .map(error -> error.get("field").stringValue())
                    .toList();
            assertThat(fields)
                    .containsExactlyInAnyOrder(
                            "job_id",
                            "prompt",
                            "max_tokens",
                            "temperature",
                            "top_p",
                            "top_k",
                            "seed",
                            "stop",
                            "adapter",
                            "tempratur");
            for (JsonNode error : reply.json().get("errors")) {
                assertThat(error.has("constraint")).isTrue();
                assertThat(error.get("message").stringValue()).contains("expected");
            }
            assertThat(reply.response().body())
                    .contains("did you mean temperature?")
                    .contains("\"value\":0");
            assertThat(fixture.engine.requests).isEmpty();
        }
    }

    @Test
    void invalidNumbersAreRejected() throws Exception {
        try (Fixture fixture = new Fixture()) {
            for (String number :
                    List.of("NaN", "Infinity", "1e999", "-1", "99999999999999999999", "'1'", "[]", "true")) {
                Fixture.Reply reply = fixture.post(
                        "/execute", "{'job_id':'j','prompt':'x','max_tokens':1,'temperature':" + number + "}");
                assertThat(reply.status()).as(number).isEqualTo(400);
            }
        }
    }

    @Test
    void aBodyThatIsNotAnObjectIsRejected() throws Exception {
        try (Fixture fixture = new Fixture()) {
            for (String body : List.of("", "[]", "nope", "{", "{'a':1,'a':2}", "[".repeat(100_000), "\"x\"")) {
                Fixture.Reply reply = fixture.post("/execute", body);
                assertThat(reply.status()).isEqualTo(400);
                assertThat(reply.json().at("/errors/0/field").stringValue()).isEqualTo("body");
            }
        }
    }

    @Test
    void aPromptBeyondTheContext() throws Exception {
        try (Fixture fixture = new Fixture()) {
            Fixture.Reply reply =
                    fixture.post("/execute", "{'job_id':'j','prompt':'" + "x y ".repeat(3000) + "','max_tokens':1}");
            assertThat(reply.status()).isEqualTo(400);
            assertThat(reply.response().body()).contains("4096").doesNotContain("x y");
        }
    }

    @Test
    void aJobIdIsUsedOnceAtATime() throws Exception {
        try (Fixture fixture = new Fixture();
                RawClient client = fixture.raw()) {
            fixture.engine.hold(0);
            String job = Fixture.quoted("{'job_id':'same','prompt':'x','max_tokens':5}");
            client.post("/execute", job).openStream().event();
            Fixture.Reply second = fixture.post("/execute", job);
            assertThat(second.status()).isEqualTo(400);
            assertThat(second.json().at("/errors/0/field").stringValue()).isEqualTo("job_id");
            fixture.engine.release();
            Fixture.await("the first ends", () -> fixture.engine.live() == 0);
            Fixture.await("the id is free", () -> {
                try {
                    return fixture.post("/execute", job).status() == 200;
                } catch (IOException | InterruptedException failure) {
                    throw new AssertionError(failure);
                }
            });
        }
    }

    @Test
    void refusals() throws Exception {
        try (Fixture fixture = new Fixture()) {
            String job = "{'job_id':'j','prompt':'x','max_tokens':5}";
            fixture.engine.full(true);
            Fixture.Reply full = fixture.post("/execute", job);
            assertThat(full.status()).isEqualTo(429);
            assertThat(full.header("Retry-After")).isEqualTo("7");
            assertThat(full.json().at("/error/code").stringValue()).isEqualTo("queue_full");
            fixture.engine.full(false).neverFits(true);
            Fixture.Reply never = fixture.post("/execute", job);
            assertThat(never.status()).isEqualTo(400);
            assertThat(never.json().at("/errors/0/field").stringValue()).isEqualTo("max_tokens");
        }
    }

    @Test
    void engineFailuresHaveACodeAndNoInternalDetails() throws Exception {
        for (FinishReason.FailureKind kind : FinishReason.FailureKind.values()) {
            for (int at : new int[] {0, 3}) {
                try (Fixture fixture = new Fixture()) {
                    fixture.engine.failAt(at, kind);
                    List<String> events = fixture.events("/execute", "{'job_id':'j','prompt':'x','max_tokens':50}");
                    JsonNode error = Jackson.JSON.readTree(events.getLast());
                    assertThat(error.get("type").stringValue()).isEqualTo("error");
                    assertThat(error.get("code").stringValue()).isEqualTo(kind.name());
                    assertThat(error.get("retriable").booleanValue())
                            .isEqualTo(kind == FinishReason.FailureKind.OUT_OF_MEMORY);
                    assertThat(events.toString()).doesNotContain("secret");
                    assertThat(events).hasSize(at + 2);
                }
            }
        }
    }

    @Test
    void aRequestTimesOut() throws Exception {
        try (Fixture fixture = new Fixture(
                new FakeEngine(), options -> options.withTimes(Duration.ofMillis(200), Duration.ofSeconds(1)))) {
            fixture.engine.hold(2);
            List<String> events = fixture.events("/execute", "{'job_id':'j','prompt':'x','max_tokens':50}");
            assertThat(events.getLast()).contains("TIMEOUT");
            Fixture.await("KV is given back", () -> fixture.engine.live() == 0);
        }
    }

    /** One wrong field does not hide another. */
    @Test
    void allViolationsAreListed() throws Exception {
        try (Fixture fixture = new Fixture()) {
            Map<String, String> wrong = new LinkedHashMap<>();
            wrong.put("job_id", "''");
            wrong.put("prompt", "''");
            wrong.put("max_tokens", "0");
            wrong.put("temperature", "3");
            wrong.put("top_p", "'x'");
            wrong.put("top_k", "-2");
            wrong.put("min_p", "1");
            wrong.put("repetition_penalty", "1e-39");
            wrong.put("seed", "1.5");
            wrong.put("stop", "[1]");
            wrong.put("adapter", "'none'");
            wrong.put("token_healing", "'x'");
            wrong.put("add_special", "'x'");
            wrong.put("parse_special", "'x'");
            wrong.put("no_such_field", "1");
            for (String prompt : List.of("'prompt':''", "'prompt':5", "'prompt_tokens':[]", "'prompt_tokens':[-1]")) {
                String json = wrong.entrySet().stream()
                        .map(each ->
                                each.getKey().equals("prompt") ? prompt : "'" + each.getKey() + "':" + each.getValue())
                        .collect(Collectors.joining(",", "{", "}"));
                Set<String> fields = new TreeSet<>(wrong.keySet());
                if (prompt.startsWith("'prompt_tokens'")) {
                    fields.remove("prompt");
                    fields.add("prompt_tokens");
                }
                Set<String> listed = fixture.post("/execute", json)
                        .json()
                        .get("errors")
                        .valueStream()
                        .map(error -> error.get("field").stringValue())
                        .collect(Collectors.toCollection(TreeSet::new));
                assertThat(listed).as(prompt).isEqualTo(fields);
            }
        }
    }
}
