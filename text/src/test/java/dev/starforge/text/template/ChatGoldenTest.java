package dev.starforge.text.template;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Templates in the constructs of the families that we run, against two other interpreters; {@code ./dev peers chat-goldens}. */
final class ChatGoldenTest {
    private static final JsonNode ALL = new JsonMapper().readTree(resource("goldens.json"));
    private static final String SIGNS = "{}%()[]|.,'\"-+*=~ \\0a:_";
    private static final Clock CLOCK = Clock.fixed(Instant.parse(ALL.path("now").stringValue()), ZoneOffset.UTC);

    private static String resource(String name) {
        try (InputStream in = Objects.requireNonNull(ChatGoldenTest.class.getResourceAsStream(name), name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static Map<String, JsonNode> entries(JsonNode object) {
        return object.propertyStream().collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    private static String render(String source, JsonNode golden) {
        Map<String, String> tokens = entries(ALL.path("tokens")).entrySet().stream()
                .collect(Collectors.toMap(
                        Map.Entry::getKey, each -> each.getValue().stringValue()));
        return ChatTemplate.parse(Path.of("model"), source, tokens, CLOCK)
                .render(
                        golden.path("messages"),
                        golden.path("tools").valueStream().toList(),
                        golden.path("asks").booleanValue(),
                        entries(golden.path("settings")));
    }

    private static List<JsonNode> goldens() {
        return ALL.path("goldens").valueStream().toList();
    }

    @TestFactory
    Stream<DynamicTest> asJinja2() {
        return goldens().stream().map(golden -> {
            String file = golden.path("template").stringValue();
            return dynamicTest(file + ": " + golden.path("name").stringValue(), () -> {
                String source = resource(file);
                if (golden.path("jinja2").isNull()) {
                    assertThatThrownBy(() -> render(source, golden)).isInstanceOf(ChatTemplateException.class);
                } else {
                    assertThat(render(source, golden))
                            .isEqualTo(golden.path("jinja2").stringValue());
                }
            });
        });
    }

    /** Whatever a template is, it gives a text or an error that says so, and soon. */
    @Test
    void brokenTemplatesThrowTemplateExceptions() {
        SplittableRandom random = new SplittableRandom(7);
        List<JsonNode> goldens = goldens();
        int refused = 0;
        for (int i = 0; i < 3000; i++) {
            JsonNode golden = goldens.get(random.nextInt(goldens.size()));
            StringBuilder source =
                    new StringBuilder(resource(golden.path("template").stringValue()));
            for (int changes = 1 + random.nextInt(3); changes > 0; changes--) {
                int at = random.nextInt(source.length() - 20);
                switch (random.nextInt(3)) {
                    case 0 -> source.delete(at, at + 1 + random.nextInt(8));
                    case 1 -> source.insert(at, source.substring(at / 2, at / 2 + random.nextInt(12)));
                    default -> source.setCharAt(at, SIGNS.charAt(random.nextInt(SIGNS.length())));
                }
            }
            try {
                render(source.toString(), golden);
            } catch (ChatTemplateException wrong) {
                refused++;
            }
        }
        assertThat(refused).isBetween(500, 2900);
    }
}
