package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.text.json.Jackson;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Clock;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;

/** The page: what a browser gets, what it may do with it, and a run that is watched. */
final class PageTest {
    @TempDir
    private Path folder;

    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    @Test
    void everyFileOfThePageIsThereWithItsTypeAndThePolicy() throws Exception {
        try (Fixture fixture = new Fixture()) {
            Fixture.Reply index = fixture.get("/");
            assertThat(index.header("content-type")).isEqualTo("text/html; charset=utf-8");
            List<String> named = Pattern.compile("(?:src|href)=\"([^\"]*)\"")
                    .matcher(index.response().body())
                    .results()
                    .map(match -> match.group(1))
                    .toList();
            assertThat(named).hasSizeGreaterThan(8).allMatch(path -> path.startsWith("/page/"));
            for (String path : named) {
                Fixture.Reply file = fixture.get(path);
                assertThat(file.status()).as(path).isEqualTo(200);
                assertThat(file.header("content-type"))
                        .isEqualTo(
                                path.endsWith(".js")
                                        ? "text/javascript; charset=utf-8"
                                        : path.endsWith(".css")
                                                ? "text/css; charset=utf-8"
                                                : "image/svg+xml; charset=utf-8");
                assertThat(file.header("X-Content-Type-Options")).isEqualTo("nosniff");
            }
            assertThat(index.header("Content-Security-Policy"))
                    .contains("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'")
                    .doesNotContain("unsafe");
            assertThat(index.response().body()).doesNotContainPattern("<script(?! src)|<style| style=| on[a-z]+=");
        }
    }

    @Test
    void filesThatThePageDoesNotHave() throws Exception {
        try (Fixture fixture = new Fixture()) {
            for (String path :
                    List.of("/page/", "/page/none.js", "/page/..%2FPageRoutes.class", "/page/../index.html")) {
                assertThat(fixture.get(path).status()).as(path).isEqualTo(404);
            }
            assertThat(fixture.post("/", "{}").header("Allow")).isEqualTo("GET");
        }
    }

    /** The same head as GET has, and then the next answer: a body would be taken for it. */
    @Test
    void headHasNoBody() throws Exception {
        try (Fixture fixture = new Fixture();
                RawClient client = fixture.raw()) {
            client.send("HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
            assertThat(client.line()).isEqualTo("HTTP/1.1 200 OK");
            String line = client.line();
            String head = "";
            while (!line.isEmpty()) {
                head += line + "\n";
                line = client.line();
            }
            int length = fixture.get("/").response().body().length();
            assertThat(head).contains("Content-Length: " + length + "\n", "Content-Security-Policy: ");
            assertThat(client.get("/health").reply().status()).isEqualTo(200);
            client.send("HEAD /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
            assertThat(client.line()).isEqualTo("HTTP/1.1 405 Method Not Allowed");
        }
    }

    @Test
    void aWatcherReceivesEarlierLinesNewLinesAndTheEnd() throws Exception {
        Path metrics = folder.resolve("metrics.jsonl");
        Files.writeString(metrics, "{\"step\":1,\"loss\":2.5}\n");
        RunPage page = RunPage.start(0, "const script = 1;\n", Clock.systemUTC(), () -> "id");
        try (page;
                RawClient client = new RawClient(page.uri().getPort())) {
            page.set("status", JSON.stringNode("loading"));
            client.get("/run");
            assertThat(next(client)).hasToString("{\"values\":{\"status\":\"loading\"}}");
            page.follow(metrics);
            assertThat(next(client)).hasToString("{\"lines\":[{\"step\":1,\"loss\":2.5}]}");
            // a line counts when it is whole
            Files.writeString(metrics, "{\"step\":2,\"note\":\"ä\"}\n{\"ste", StandardOpenOption.APPEND);
            assertThat(next(client)).hasToString("{\"lines\":[{\"step\":2,\"note\":\"ä\"}]}");
            Files.writeString(metrics, "p\":3}\n", StandardOpenOption.APPEND);
            page.set("status", JSON.stringNode("finished"));
            assertThat(next(client)).hasToString("{\"lines\":[{\"step\":3}]}");
            assertThat(next(client)).hasToString("{\"values\":{\"status\":\"finished\"}}");
            page.close();
            assertThat(data(client)).isEqualTo("[DONE]");
        }
    }

    @Test
    void aRunPageIsServedOnlyLocally() throws Exception {
        try (RunPage page = RunPage.start(0, "const script = 1;\n", Clock.systemUTC(), () -> "id");
                RawClient client = new RawClient(page.uri().getPort());
                RawClient stranger = new RawClient(page.uri().getPort())) {
            assertThat(page.uri().getHost()).isEqualTo("127.0.0.1");
            assertThat(client.get("/page/run.js").reply().body()).isEqualTo("const script = 1;\n");
            assertThat(client.get("/page/try.js").reply().status()).isEqualTo(404);
            stranger.send("GET /run HTTP/1.1\r\nHost: evil.example\r\n\r\n");
            assertThat(stranger.reply().status()).isEqualTo(403);
        }
    }

    private static JsonNode next(RawClient client) throws Exception {
        return Jackson.JSON.readTree(data(client));
    }

    private static String data(RawClient client) throws Exception {
        String line = client.line();
        while (!line.startsWith("data: ")) {
            line = client.line();
        }
        return new String(line.substring(6).getBytes("ISO-8859-1"), "UTF-8");
    }
}
