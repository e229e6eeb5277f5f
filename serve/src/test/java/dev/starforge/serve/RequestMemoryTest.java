package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** Requests whose responses or parsed bodies are many times as large as they are. */
final class RequestMemoryTest {
    /** Six requests at once; each took 0.4 GB of the 2 GB heap before its response was streamed. */
    @Test
    void piecesOfLongTextsAreStreamed() throws Exception {
        int words = 400_000;
        String json = Fixture.quoted("{'with_pieces':true,'content':'" + "a b ".repeat(words) + "'}");
        try (Fixture fixture = new Fixture();
                ExecutorService clients = Executors.newFixedThreadPool(6)) {
            List<Future<Long>> answers = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                answers.add(clients.submit(() -> {
                    try (RawClient client = fixture.raw()) {
                        client.socket().setSoTimeout(60_000);
                        client.post("/tokenize", json);
                        assertThat(client.line()).isEqualTo("HTTP/1.1 200 OK");
                        return length(client.socket().getInputStream());
                    }
                }));
            }
            for (Future<Long> answer : answers) {
                assertThat(answer.get()).isGreaterThan(30L * words);
            }
            assertThat(fixture.get("/health").status()).isEqualTo(200);
        }
    }

    /** Bytes up to the last chunk. */
    private static long length(InputStream in) throws IOException {
        byte[] part = new byte[1 << 20];
        long length = 0;
        for (String end = ""; !end.endsWith("0\r\n\r\n"); ) {
            int count = in.read(part);
            assertThat(count).isPositive();
            length += count;
            end = end.substring(Math.max(0, end.length() - 5))
                    + new String(part, Math.max(0, count - 5), Math.min(5, count), StandardCharsets.ISO_8859_1);
        }
        return length;
    }

    /** A streamed response is the same JSON as a whole one. */
    @Test
    void longResponsesAreWholeJson() throws Exception {
        try (Fixture fixture = new Fixture()) {
            String text = "def f(x):\\n\\t\\\"鱼🙂\\\" ".repeat(3000);
            JsonNode tokens = fixture.post("/tokenize", "{'content':'" + text + "','with_pieces':true}")
                    .json();
            StringBuilder pieces = new StringBuilder("[");
            for (JsonNode token : tokens.get("tokens")) {
                pieces.append(pieces.length() > 1 ? "," : "")
                        .append(token.get("id").intValue());
            }
            assertThat(tokens.get("count").intValue())
                    .isEqualTo(tokens.get("tokens").size());
            JsonNode back =
                    fixture.post("/detokenize", "{'tokens':" + pieces + "]}").json();
            String expected = "def f(x):\n\t\"鱼🙂\" ".repeat(3000);
            assertThat(back.get("content").stringValue()).isEqualTo(expected);
            assertThat(back.get("prompt").stringValue()).isEqualTo(expected);
        }
    }
}
