package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.RawClient;
import dev.starforge.text.json.Jackson;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** A response that a worker streams passes through the pool in parts. */
final class PoolLongResponseTest {
    @TempDir
    private Path folder;

    @Test
    void aLongListOfTokensIsRelayed() throws Exception {
        try (PoolFixture pool =
                new PoolFixture(folder).model("m", "tokens=3", Duration.ZERO).start()) {
            pool.worker("m", true);
            try (RawClient client = pool.client()) {
                String json = "{\"model\":\"m\",\"with_pieces\":true,\"content\":\"" + "a b ".repeat(20_000) + "\"}";
                RawClient.Reply reply = client.post("/tokenize", json).reply();
                assertThat(reply.status()).isEqualTo(200);
                assertThat(reply.headers())
                        .containsEntry("transfer-encoding", "chunked")
                        .containsEntry("content-type", "application/json")
                        .containsKey("x-worker-id");
                JsonNode body = Jackson.JSON.readTree(reply.body());
                assertThat(body.get("tokens")).hasSize(body.get("count").intValue());
                assertThat(body.get("count").intValue()).isGreaterThan(40_000);
                client.get("/health");
                assertThat(client.reply().status()).isEqualTo(200);
            }
        }
    }
}
