package dev.starforge.cli.hub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ProxySelector;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Hubs that lie, and hubs that are not reached: each ends with one typed error that names the reason. */
final class LyingHubTest {
    private static final ModelId ID = ModelId.parse(FakeHub.REPO).orElseThrow();
    private static final String WEIGHTS = "model.safetensors";
    private static final Hub.Timeouts SHORT = new Hub.Timeouts(
            2,
            Duration.ofSeconds(30),
            Duration.ofSeconds(30),
            Duration.ofMillis(300),
            Duration.ofMillis(1),
            Duration.ofSeconds(1));

    @TempDir
    Path folder;

    private final FakeHub fake = new FakeHub().with(WEIGHTS, "weights");

    @AfterEach
    void close() {
        fake.close();
    }

    private void assertRefused(URI endpoint, ProxySelector proxies, String... said) {
        assertThatThrownBy(() -> {
                    Pull pull =
                            new Pull(new Hub(endpoint, Optional.empty(), proxies, SHORT, line -> {}), ID, List.of());
                    pull.fetch(pull.wanted(), folder, (done, total) -> {});
                })
                .isInstanceOf(HubException.class)
                .message()
                .contains(said)
                .doesNotContain("Exception")
                .hasSizeLessThan(2000);
        assertThat(folder.resolve(WEIGHTS)).doesNotExist();
    }

    private void assertRefused(String... said) {
        assertRefused(fake.endpoint(), ProxySelector.of(null), said);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "http://",
                "http://[",
                "http://host:99999/x",
                "http://a b/",
                "%zz",
                "http:///path",
                "file:///etc/passwd",
                "ftp://host/x",
                "mailto:someone",
                "javascript:alert(1)",
            })
    void aRedirectToNoAddressIsRefused(String location) {
        fake.failing("listing", FakeHub.status(302, "Location", location));
        assertRefused("redirects to");
    }

    @Test
    void aRedirectWithoutLocationOrInALoopIsRefused() {
        fake.failing("listing", FakeHub.status(307));
        assertRefused("redirects to an invalid address: ''");
        FakeHub.Fault self = FakeHub.status(308, "Location", "?again");
        fake.failing("listing", self, self, self, self, self, self);
        assertRefused("more than 5 redirects");
    }

    @Test
    void aLongRedirectIsShortened() {
        fake.failing("listing", FakeHub.status(302, "Location", "gopher://" + "x".repeat(100_000)));
        assertRefused("gopher://xxx", "...");
    }

    @Test
    void headersWithoutEndAreRefused() {
        fake.failing("listing", FakeHub.status(200, "X-Large", "x".repeat(1 << 20)));
        assertRefused("invalid HTTP response");
    }

    @Test
    void aListingThatNeverEndsIsCutOff() {
        fake.with("listing", "{".repeat(1000)).failing("listing", FakeHub.silentAfter(10));
        assertRefused("the listing took longer than");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "null",
                "[]",
                "{}",
                "<html>",
                "{\"sha\": 1}",
                "{\"sha\": \"COMMIT\", \"siblings\": [{}]}",
                "{\"sha\": \"COMMIT\", \"siblings\": [{\"rfilename\": \"a.gguf\", \"size\": -1}]}",
                "{\"sha\": \"COMMIT\", \"siblings\": [{\"rfilename\": \"a.gguf\", \"size\": 1e300}]}",
                "{\"sha\": \"COMMIT\", \"siblings\": [{\"rfilename\": \"a.gguf\", \"size\": 9223372036854775807}]}",
                "{\"sha\": \"COMMIT\", \"siblings\": [{\"rfilename\": \"a.gguf\", \"size\": 1, \"blobId\": \"x\"}]}",
                "{\"sha\": \"COMMIT\", \"siblings\": {\"rfilename\": \"a.gguf\"}}",
            })
    void aListingThatIsNoneIsRefused(String json) {
        fake.failing(
                "listing",
                FakeHub.instead(json.replace("COMMIT", FakeHub.COMMIT).getBytes(StandardCharsets.UTF_8)));
        assertRefused("");
    }

    @Test
    void aFileThatIsListedTwiceIsRefused() {
        String file = "{\"rfilename\": \"a.gguf\", \"size\": 1, \"blobId\": \"" + "0".repeat(40) + "\"}";
        String json = "{\"sha\": \"" + FakeHub.COMMIT + "\", \"siblings\": [" + file + ", " + file + "]}";
        fake.failing("listing", FakeHub.instead(json.getBytes(StandardCharsets.UTF_8)));
        assertRefused("a.gguf: listed twice");
    }

    @Test
    void aHostWithoutAddressIsNamed() {
        assertRefused(
                URI.create("https://hub.invalid"),
                ProxySelector.of(null),
                "cannot connect to hub.invalid: the name hub.invalid cannot be resolved (DNS). ",
                "HTTPS_PROXY",
                "HF_ENDPOINT");
    }

    @Test
    void aClosedPortIsNamed() {
        assertRefused(
                URI.create("http://127.0.0.1:1"),
                ProxySelector.of(null),
                "cannot connect to 127.0.0.1: connection refused. ");
    }

    @Test
    void aServerThatSpeaksNoTlsIsNamed() throws IOException {
        try (ServerSocket plain = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Thread.ofVirtual().start(() -> {
                try (Socket client = plain.accept()) {
                    client.getOutputStream().write("HTTP/1.1 400 \r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                    client.getInputStream().readAllBytes();
                } catch (IOException gone) {
                    return;
                }
            });
            assertRefused(
                    URI.create("https://127.0.0.1:" + plain.getLocalPort()),
                    ProxySelector.of(null),
                    "cannot connect to 127.0.0.1: TLS failed: ");
        }
    }

    @Test
    void aSilentServerIsLeft() throws IOException {
        Hub.Timeouts brief = new Hub.Timeouts(
                2,
                Duration.ofSeconds(30),
                Duration.ofMillis(200),
                Duration.ofSeconds(1),
                Duration.ofMillis(1),
                Duration.ofSeconds(1));
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            URI endpoint = URI.create("http://127.0.0.1:" + silent.getLocalPort());
            Hub hub = new Hub(endpoint, Optional.empty(), ProxySelector.of(null), brief, line -> {});
            assertThatThrownBy(() -> hub.list(ID))
                    .isInstanceOf(HubException.class)
                    .hasMessageContaining("cannot connect to 127.0.0.1: no answer within 200 ms (timeout)");
        }
    }

    @Test
    void aProxyThatIsNotReachedIsNamed() {
        assertRefused(
                URI.create("http://hub.invalid"),
                proxies("http://127.0.0.1:1"),
                "cannot connect to hub.invalid through the proxy 127.0.0.1:1: connection refused");
        assertRefused(
                URI.create("http://127.0.0.1:1"),
                proxies("http://proxy.invalid:80"),
                "through the proxy proxy.invalid:80: the name proxy.invalid cannot be resolved (DNS). ");
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://a b", "socks5://host:1", "http://user:secret@host:1", "http://", "host:99999"})
    void aProxyThatIsNoneIsRefused(String proxy) {
        assertRefused(fake.endpoint(), proxies(proxy), "expected http://HOST:PORT without a password");
    }

    private static ProxySelector proxies(String proxy) {
        Map<String, String> variables = Map.of("HTTP_PROXY", proxy);
        return Proxies.of(name -> Optional.ofNullable(variables.get(name)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"a b", "a\nb", "tök"})
    void aTokenThatNoHeaderCanHoldIsRefused(String token) {
        assertThatThrownBy(
                        () -> new Hub(fake.endpoint(), Optional.of(token), ProxySelector.of(null), SHORT, line -> {}))
                .isInstanceOf(HubException.class)
                .hasMessageContaining("HF_TOKEN: expected letters");
    }

    @Test
    void aPatternThatIsNoneIsRefused() throws IOException {
        assertThatThrownBy(() -> new Pull(
                        new Hub(fake.endpoint(), Optional.empty(), ProxySelector.of(null), SHORT, line -> {}),
                        ID,
                        List.of("[")))
                .isInstanceOf(HubException.class)
                .hasMessageContaining("--include [: not a pattern");
        try (Stream<Path> left = Files.list(folder)) {
            assertThat(left).isEmpty();
        }
    }
}
