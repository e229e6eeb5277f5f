package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What OpenAI's own client for Node sent, sent again; and what it was given and found right, expected again but for ids and
 * times. {@code ./dev peers openai-client --record} asks the client itself, and writes the exchanges.
 */
final class OpenAiGoldenTest {
    static List<Recorded> exchanges() throws IOException {
        List<Recorded> all = Recorded.all("openai");
        assertThat(all).hasSizeGreaterThan(12);
        return all;
    }

    @ParameterizedTest
    @MethodSource("exchanges")
    void theSameRequestHasTheSameAnswer(Recorded recorded) throws Exception {
        try (Fixture fixture = new Fixture(new FakeEngine(), options -> options.withKeys(List.of("sk-recorded-key")));
                RawClient client = fixture.raw()) {
            RawClient.Reply reply = recorded.replay(client);
            assertThat(reply.status())
                    .isEqualTo(recorded.exchange().get("status").intValue());
            assertThat(reply.headers().get("content-type"))
                    .isEqualTo(recorded.exchange().get("type").stringValue());
            assertThat(timeless(reply.body()))
                    .isEqualTo(timeless(recorded.exchange().get("answer").stringValue()));
        }
    }

    private static String timeless(String answer) {
        return answer.replaceAll("cmpl-[0-9a-f]{32}", "cmpl-ID").replaceAll("\"created\":[0-9]+", "\"created\":0");
    }
}
