package dev.starforge.data.dataset.io;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.git.ByteBuilder;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** What it writes is what another reader reads. */
final class JsonWriterTest {
    private static final String[] PIECES = {
        "\n", "\t", "\"", "\\", "\r", "\0", "\u001f", " ", "\u007f", "é", "日", "𝔘", "a", "code = b;"
    };

    private final JsonMapper mapper = new JsonMapper();
    private final Random random = new Random(3);

    private JsonNode written(byte[] value) {
        JsonWriter json = new JsonWriter();
        json.begin()
                .put("before", 1)
                .put("text", new ByteBuilder().add(value))
                .put("after", true)
                .end();
        return mapper.readTree(json.bytes().copy());
    }

    @Test
    void everyStringRoundTrips() {
        for (int round = 0; round < 5_000; round++) {
            StringBuilder text = new StringBuilder();
            for (int i = random.nextInt(12); i > 0; i--) {
                text.append(PIECES[random.nextInt(PIECES.length)]);
            }
            JsonNode node = written(text.toString().getBytes(StandardCharsets.UTF_8));
            assertThat(node.path("text").stringValue()).isEqualTo(text.toString());
            assertThat(node.has("text_encoding")).isFalse();
            assertThat(node.path("after").booleanValue()).isTrue();
        }
    }

    @Test
    void invalidUtf8RoundTripsByteByByte() {
        for (int round = 0; round < 1_000; round++) {
            byte[] bytes = new byte[1 + random.nextInt(40)];
            random.nextBytes(bytes);
            // never part of a character
            bytes[random.nextInt(bytes.length)] = (byte) 0xFF;
            JsonNode node = written(bytes);
            assertThat(node.path("text_encoding").stringValue()).isEqualTo("latin1");
            assertThat(node.path("text").stringValue()).isEqualTo(new String(bytes, StandardCharsets.ISO_8859_1));
            assertThat(node.path("after").booleanValue()).isTrue();
        }
    }
}
