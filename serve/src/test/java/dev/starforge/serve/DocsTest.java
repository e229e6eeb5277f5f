package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;
import tools.jackson.databind.JsonNode;

/** The two descriptions of the API, held to what the worker does. */
final class DocsTest {
    private static final Path DOCS = Path.of("..", "docs");

    private static Map<?, ?> openApi() throws Exception {
        Load load = new Load(LoadSettings.builder().build());
        return (Map<?, ?>) load.loadFromString(Files.readString(DOCS.resolve("openapi.yaml")));
    }

    private static Map<?, ?> at(Map<?, ?> node, String... keys) {
        Map<?, ?> found = node;
        for (String key : keys) {
            found = (Map<?, ?>) found.get(key);
            assertThat(found).as(key).isNotNull();
        }
        return found;
    }

    @Test
    void thePageListsTheRoutes() throws Exception {
        List<String> listed = Pattern.compile("(?m)^\\| `((?:GET|POST) /[^`]*)` \\|")
                .matcher(Files.readString(DOCS.resolve("api.md")))
                .results()
                .map(match -> match.group(1))
                .toList();
        try (Fixture fixture = new Fixture()) {
            assertThat(listed).containsExactlyInAnyOrderElementsOf(fixture.worker.operations());
        }
    }

    @Test
    void openApiListsTheRoutes() throws Exception {
        List<String> listed = new ArrayList<>();
        at(openApi(), "paths")
                .forEach((path, methods) -> ((Map<?, ?>) methods).forEach((method, operation) -> {
                    listed.add(method.toString().toUpperCase(Locale.ROOT) + " " + path);
                    assertThat(at((Map<?, ?>) operation, "responses")).isNotEmpty();
                }));
        try (Fixture fixture = new Fixture()) {
            assertThat(listed).containsExactlyInAnyOrderElementsOf(fixture.worker.operations());
        }
    }

    @Test
    void everyReferenceResolves() throws Exception {
        Map<?, ?> root = openApi();
        Set<String> references = Pattern.compile("'#/([^']*)'")
                .matcher(Files.readString(DOCS.resolve("openapi.yaml")))
                .results()
                .map(match -> match.group(1))
                .collect(Collectors.toCollection(TreeSet::new));
        assertThat(references).hasSizeGreaterThan(10);
        references.forEach(
                reference -> assertThat(at(root, reference.split("/"))).isNotEmpty());
    }

    /** Every field of a request is one that the worker reads: an object, which none of them is, is refused by its name. */
    @Test
    void everyFieldIsRead() throws Exception {
        Map<String, String> requests = Map.of(
                "/execute", "ExecuteRequest",
                "/cancel", "CancelRequest",
                "/v1/completions", "CompletionRequest",
                "/v1/chat/completions", "ChatRequest",
                "/v1/embeddings", "EmbeddingRequest",
                "/infill", "InfillRequest",
                "/detokenize", "DetokenizeRequest",
                "/v1/load_lora_adapter", "LoadAdapterRequest",
                "/v1/unload_lora_adapter", "UnloadAdapterRequest");
        Map<?, ?> schemas = at(openApi(), "components", "schemas");
        try (Fixture fixture = new Fixture()) {
            for (Map.Entry<String, String> request : requests.entrySet()) {
                Map<?, ?> schema = at(schemas, request.getValue());
                Set<String> fields = new TreeSet<>();
                at(schema, "properties").keySet().forEach(name -> fields.add(name.toString()));
                if (schema.containsKey("allOf")) {
                    at(schemas, "Sampling", "properties").keySet().forEach(name -> fields.add(name.toString()));
                }
                fields.removeAll(Set.of("stream_options", "chat_template_kwargs")); // which are objects
                for (String field : fields) {
                    Fixture.Reply reply = fixture.post(request.getKey(), "{'" + field + "':{'a':{}}}");
                    assertThat(reply.status())
                            .as(request.getKey() + " " + field)
                            .isEqualTo(400);
                    assertThat(reply.response().body()).contains(field).doesNotContain("no such field");
                }
            }
        }
    }

    @Test
    void healthMatchesItsDocumentation() throws Exception {
        Set<String> said = new TreeSet<>();
        at(openApi(), "components", "schemas", "Health", "properties")
                .keySet()
                .forEach(name -> said.add(name.toString()));
        String page = Files.readString(DOCS.resolve("api.md"));
        try (Fixture fixture = new Fixture()) {
            JsonNode health = fixture.get("/health").json();
            assertThat(health.propertyNames()).containsExactlyInAnyOrderElementsOf(said);
            health.propertyNames().forEach(name -> assertThat(page).contains("`" + name + "`"));
        }
    }

    @Test
    void thePageNamesTheMetrics() throws Exception {
        String page = Files.readString(DOCS.resolve("api.md"));
        List<String> listed = Pattern.compile("`((?:worker_|vllm:)[a-z0-9_]+)`")
                .matcher(page.substring(page.indexOf("## Metrics"), page.indexOf("## Logs")))
                .results()
                .map(match -> match.group(1))
                .toList();
        try (Fixture fixture = new Fixture()) {
            List<String> families = fixture.get("/metrics")
                    .response()
                    .body()
                    .lines()
                    .filter(line -> line.startsWith("# TYPE"))
                    .map(line -> line.split(" ")[2])
                    .toList();
            assertThat(listed).containsExactlyInAnyOrderElementsOf(families);
        }
    }
}
