package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A request ends within 100 ms of the client's wish, at every token and before the first. */
final class CancelTest {
    private static final Duration SOON = Duration.ofMillis(100);
    private static final int TOKENS = 8;

    private static String body(String path, boolean stream) {
        return Fixture.quoted(
                switch (path) {
                    case "/execute" -> "{'job_id':'job','prompt':'x','max_tokens':50}";
                    case "/infill" -> "{'input_prefix':'a','input_suffix':'b','n_predict':50,'stream':" + stream + "}";
                    case "/v1/completions" -> "{'prompt':'x','max_tokens':50,'n':2,'stream':" + stream + "}";
                    default -> "{'messages':[{'role':'user','content':'x'}],'stream':" + stream + "}";
                });
    }

    @ParameterizedTest
    @CsvSource({
        "/execute, true",
        "/v1/completions, true",
        "/v1/completions, false",
        "/v1/chat/completions, true",
        "/v1/chat/completions, false",
        "/infill, true",
        "/infill, false"
    })
    void aDisconnectIsDetectedAtEveryToken(String path, boolean stream) throws Exception {
        Duration slowest = Duration.ZERO;
        try (Fixture fixture = new Fixture()) {
            for (int index = 0; index <= TOKENS; index++) {
                int computed = fixture.engine.computed();
                int sequences = path.equals("/v1/completions") ? 2 : 1;
                int expected = computed + index * sequences;
                fixture.engine.hold(index);
                try (RawClient client = fixture.raw()) {
                    client.post(path, body(path, stream));
                    Fixture.await(
                            "token " + index,
                            () -> fixture.engine.live() == sequences && fixture.engine.computed() == expected);
                }
                Duration took = Fixture.await("the end of it", () -> fixture.engine.live() == 0);
                assertThat(took).as("at token %d", index).isLessThan(SOON);
                slowest = took.compareTo(slowest) > 0 ? took : slowest;
                Fixture.await("its KV blocks", () -> fixture.engine.status().kvUsage() == 0);
            }
            fixture.engine.release();
            Fixture.Reply next = fixture.post("/v1/completions", "{'prompt':'x','max_tokens':50}");
            assertThat(next.json().at("/choices/0/text").stringValue()).isEqualTo("Hello, world! This is a reply.");
            Fixture.await("connections", () -> fixture.worker.connections() <= 1);
        }
        System.out.printf(
                "%s, stream %s: the slowest of %d ends took %.1f ms%n",
                path, stream, TOKENS + 1, slowest.toNanos() / 1e6);
    }

    @Test
    void aResetIsDetectedLikeAClose() throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.engine.hold(0);
            RawClient client = fixture.raw();
            client.post("/v1/completions", body("/v1/completions", false));
            Fixture.await("it runs", () -> fixture.engine.live() == 2);
            client.socket().setSoLinger(true, 0);
            client.close();
            assertThat(Fixture.await("the end of it", () -> fixture.engine.live() == 0))
                    .isLessThan(SOON);
        }
    }

    @Test
    void embeddingsToo() throws Exception {
        try (Fixture fixture = new Fixture()) {
            fixture.engine.embeddingsHang();
            try (RawClient client = fixture.raw()) {
                client.post("/v1/embeddings", Fixture.quoted("{'input':['a','b','c']}"));
                Fixture.await("it runs", () -> fixture.engine.hangingEmbeddings() == 1);
            }
            assertThat(Fixture.await("the end of it", () -> fixture.engine.hangingEmbeddings() == 0))
                    .isLessThan(SOON);
        }
    }

    @Test
    void embeddingsTimeOutAsARequestAndAWorkerThatDrainsWaitsForThem() throws Exception {
        try (Fixture fixture = new Fixture(
                new FakeEngine().embeddingsHang(),
                options -> options.withTimes(Duration.ofMillis(100), Duration.ofSeconds(30)))) {
            assertThat(fixture.post("/v1/embeddings", "{'input':['a','b','c']}").status())
                    .isEqualTo(504);
            assertThat(fixture.engine.hangingEmbeddings()).isZero();
        }
        try (Fixture fixture = new Fixture(
                        new FakeEngine().embeddingsHang(),
                        options -> options.withTimes(Duration.ofSeconds(30), Duration.ofMillis(200)));
                RawClient client = fixture.raw()) {
            client.post("/v1/embeddings", Fixture.quoted("{'input':'a'}"));
            Fixture.await("it runs", () -> fixture.engine.hangingEmbeddings() == 1);
            long begin = System.nanoTime();
            fixture.worker.drain();
            assertThat(Duration.ofNanos(System.nanoTime() - begin)).isGreaterThan(Duration.ofMillis(200));
            assertThat(client.reply().body()).contains("CANCELLED");
        }
    }

    /** A step of the engine takes half a second; the client does not wait for it. */
    @ParameterizedTest
    @CsvSource({"0", "1", "2"})
    void aCancelledStreamEndsBeforeTheStepDoes(int index) throws Exception {
        try (Fixture fixture = new Fixture();
                RawClient client = fixture.raw()) {
            client.post("/execute", body("/execute", true));
            fixture.engine.hold(index);
            client.openStream();
            Fixture.await("token", () -> fixture.engine.live() == 1 && fixture.engine.computed() >= index);
            fixture.engine.step(Duration.ofMillis(500)).release();
            long begin = System.nanoTime();
            assertThat(fixture.post("/cancel", "{'job_id':'job'}").status()).isEqualTo(202);
            String last = client.event();
            while (!last.contains("\"type\":\"error\"")) {
                last = client.event();
            }
            assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(SOON);
            assertThat(last).contains("CANCELLED").contains("\"retriable\":true");
            Fixture.await("KV is given back", () -> fixture.engine.live() == 0);
        }
    }

    @Test
    void cancellingIsIdempotentAndAcceptsUnknownIds() throws Exception {
        try (Fixture fixture = new Fixture()) {
            for (int i = 0; i < 3; i++) {
                assertThat(fixture.post("/cancel", "{'job_id':'nobody'}").status())
                        .isEqualTo(202);
            }
            assertThat(fixture.post("/cancel", "{}").status()).isEqualTo(400);
            assertThat(fixture.post("/cancel", "{'job_id':'a','x':1}").status()).isEqualTo(400);
        }
    }

    @Test
    void aJobIsCancelledOnlyByItsTenant() throws Exception {
        try (Fixture fixture = new Fixture(new FakeEngine(), options -> options.withKeys(List.of("one", "two")));
                RawClient client = fixture.raw()) {
            fixture.engine.hold(0);
            String job = body("/execute", true);
            client.send("POST /execute HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer one\r\nContent-Length: "
                    + job.length() + "\r\n\r\n" + job);
            client.openStream().event();
            fixture.post("/cancel", "{'job_id':'job'}", "Authorization", "Bearer two");
            Thread.sleep(50);
            assertThat(fixture.engine.live()).isEqualTo(1);
            fixture.post("/cancel", "{'job_id':'job'}", "Authorization", "Bearer one");
            assertThat(client.event()).contains("CANCELLED");
        }
    }
}
