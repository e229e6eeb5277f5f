package dev.starforge.cli.hub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Models from a hub that fails in every way that hubs and networks do. */
final class PullTest {
    private static final ModelId ID = ModelId.parse(FakeHub.REPO).orElseThrow();
    private static final String WEIGHTS = "model.safetensors";
    private static final byte[] CONTENT = new byte[100_000];
    private static final Hub.Timeouts SHORT = new Hub.Timeouts(
            3,
            Duration.ofSeconds(5),
            Duration.ofSeconds(30),
            Duration.ofSeconds(1),
            Duration.ofMillis(1),
            Duration.ofSeconds(1));

    static {
        new Random(7).nextBytes(CONTENT);
    }

    @TempDir
    Path folder;

    private final List<String> notices = new CopyOnWriteArrayList<>();
    private final FakeHub fake = new FakeHub().with("config.json", "{}").with(WEIGHTS, CONTENT);

    @AfterEach
    void close() {
        fake.close();
    }

    private Pull pull(Optional<String> token, ProxySelector proxies, URI endpoint, String... include) {
        return new Pull(new Hub(endpoint, token, proxies, SHORT, notices::add), ID, List.of(include));
    }

    private PulledModel pull(String... include) throws IOException {
        Pull pull = pull(Optional.of("secret"), ProxySelector.of(null), fake.endpoint(), include);
        PulledModel wanted = pull.wanted();
        pull.fetch(wanted, folder, (done, total) -> assertThat(done).isLessThanOrEqualTo(total));
        return wanted;
    }

    private Path incomplete() {
        return folder.resolve(WEIGHTS + "." + FakeHub.hash("SHA-256", CONTENT).substring(0, 12) + ".incomplete");
    }

    private void assertWhole() throws IOException {
        assertThat(folder.resolve(WEIGHTS)).hasBinaryContent(CONTENT);
        try (Stream<Path> left = Files.list(folder)) {
            assertThat(left.map(each -> each.getFileName().toString()))
                    .containsExactlyInAnyOrder("config.json", WEIGHTS, PulledModel.FILE);
        }
    }

    /** Nothing may have the name of a file that is not the file. */
    private void assertRefused(String... said) {
        assertThatThrownBy(() -> pull())
                .isInstanceOf(HubException.class)
                .message()
                .contains(said);
        assertThat(folder.resolve(WEIGHTS)).doesNotExist();
        assertThat(PulledModel.read(folder)).isEmpty();
    }

    @Test
    void filesAreFetchedOnceAndRemembered() throws IOException {
        PulledModel pulled = pull();
        assertWhole();
        assertThat(pulled.commit()).isEqualTo(FakeHub.COMMIT);
        assertThat(pulled.bytes()).isEqualTo(CONTENT.length + 2);
        assertThat(PulledModel.read(folder)).contains(pulled);
        pull();
        assertThat(fake.requests(WEIGHTS)).hasSize(1);
        Files.write(folder.resolve(WEIGHTS), new byte[] {1, 2, 3});
        pull();
        assertWhole();
    }

    @Test
    void aConnectionThatEndsIsTakenUpWhereItEnded() throws IOException {
        fake.failing(WEIGHTS, FakeHub.cutAfter(40_000));
        pull();
        assertWhole();
        assertThat(fake.requests(WEIGHTS).getLast().range())
                .hasValueSatisfying(range -> assertThat(Integer.parseInt(range.replaceAll("\\D", "")))
                        .isBetween(1, 40_000));
    }

    @Test
    void whatAKilledProcessLeftIsResumed() throws IOException {
        Files.write(incomplete(), Arrays.copyOf(CONTENT, 12_345));
        pull();
        assertWhole();
        assertThat(fake.requests(WEIGHTS))
                .singleElement()
                .satisfies(request -> assertThat(request.range()).contains("bytes=12345-"));
    }

    @Test
    void aServerThatKnowsNoRangesBeginsAnew() throws IOException {
        Files.write(incomplete(), new byte[500]);
        fake.failing(WEIGHTS, FakeHub.instead(CONTENT));
        pull();
        assertWhole();
    }

    @Test
    void aDamagedStartIsFoundAndFetchedAgain() throws IOException {
        Files.write(incomplete(), new byte[500]);
        pull();
        assertWhole();
        assertThat(fake.requests(WEIGHTS)).hasSize(2);
    }

    @Test
    void aWrongByteIsNeverKept() throws IOException {
        byte[] wrong = CONTENT.clone();
        wrong[77_777]++;
        fake.failing(WEIGHTS, FakeHub.instead(wrong));
        pull();
        assertWhole();
        Files.delete(folder.resolve(WEIGHTS));
        Files.delete(folder.resolve(PulledModel.FILE));
        fake.failing(WEIGHTS, FakeHub.instead(wrong), FakeHub.instead(wrong));
        assertRefused(FakeHub.hash("SHA-256", CONTENT), FakeHub.hash("SHA-256", wrong), "twice");
    }

    @Test
    void aSilentServerIsLeftAndAskedAgain() throws IOException {
        fake.failing(WEIGHTS, FakeHub.silentAfter(30_000));
        pull();
        assertWhole();
        assertThat(fake.requests(WEIGHTS)).hasSizeGreaterThan(1);
    }

    @Test
    void theTokenStaysWithTheHub() throws IOException {
        try (FakeHub storage = new FakeHub().with(WEIGHTS, CONTENT)) {
            String elsewhere = storage.endpoint() + "/" + FakeHub.REPO + "/resolve/" + FakeHub.COMMIT + "/" + WEIGHTS;
            fake.failing(WEIGHTS, FakeHub.status(302, "Location", elsewhere));
            pull();
            assertWhole();
            assertThat(fake.seen).allMatch(each -> each.authorization().equals(Optional.of("Bearer secret")));
            assertThat(storage.seen)
                    .hasSize(1)
                    .allMatch(each -> each.authorization().isEmpty());
        }
    }

    @Test
    void redirectsEnd() {
        FakeHub.Fault round =
                FakeHub.status(302, "Location", "/" + FakeHub.REPO + "/resolve/" + FakeHub.COMMIT + "/" + WEIGHTS);
        fake.failing(WEIGHTS, round, round, round, round, round, round);
        assertRefused("more than 5 redirects");
    }

    @Test
    void aBusyServerIsWaitedFor() throws IOException {
        fake.failing("listing", FakeHub.status(429, "Retry-After", "0"));
        fake.failing(WEIGHTS, FakeHub.status(429, "Retry-After", "1"), FakeHub.status(503));
        long began = System.nanoTime();
        pull();
        assertWhole();
        assertThat(Duration.ofNanos(System.nanoTime() - began)).isGreaterThanOrEqualTo(Duration.ofSeconds(1));
        assertThat(notices)
                .hasSize(4)
                .anySatisfy(line -> assertThat(line).contains("HTTP status 429", "attempt 2 of 3 in 1 s"));
    }

    @Test
    void aServerThatAsksForAnHourIsNotWaitedFor() {
        fake.failing(WEIGHTS, FakeHub.status(429, "Retry-After", "3600"));
        assertRefused("HTTP status 429", "requests a pause of 3600 s", "run the same command again to resume");
    }

    @ParameterizedTest
    @CsvSource({
        "401, Accept the conditions at ENDPOINT/someone/tiny",
        "403, Accept the conditions at ENDPOINT/someone/tiny",
        "404, revision or file not found",
        "418, got 418",
    })
    void refusalsSayWhatToDo(int status, String said) {
        fake.failing("listing", FakeHub.status(status));
        assertRefused(said.replace("ENDPOINT", fake.endpoint().toString()));
    }

    @ParameterizedTest
    @ValueSource(ints = {-1000, 1000})
    void anotherLengthThanWasSaidIsRefused(int difference) {
        fake.lyingAbout(WEIGHTS, CONTENT.length + difference);
        assertRefused(difference < 0 ? "the server sends more" : "failed after");
    }

    @Test
    void aPointerIsNoModel() {
        byte[] pointer = ("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0".repeat(64) + "\nsize 5\n")
                .getBytes(StandardCharsets.UTF_8);
        fake.with(WEIGHTS, pointer);
        assertRefused("Git LFS pointer");
    }

    @Test
    void picklesAreNeverFetched() {
        fake.with("pytorch_model.bin", "pickle");
        assertThatThrownBy(() -> pull("*.bin")).hasMessageContaining("pytorch_model.bin is a pickle file");
        try (FakeHub only = new FakeHub().with("pytorch_model.bin", "pickle")) {
            Pull pull = pull(Optional.empty(), ProxySelector.of(null), only.endpoint());
            assertThatThrownBy(pull::wanted).hasMessageContaining("the weights are pickle files");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"../model.safetensors", "a/../../b.safetensors", "/etc/b.safetensors", "a\\b.safetensors"})
    void namesThatLeadElsewhereAreRefused(String name) {
        fake.with(name, "x");
        assertRefused("inside the folder");
    }

    @Test
    void whatHasNoRoomIsNotBegun() {
        fake.lyingAbout(WEIGHTS, 1L << 43);
        assertRefused("MB are free");
        assertThat(fake.requests(WEIGHTS)).isEmpty();
    }

    @Test
    void ofSeveralModelsOneIsChosen() throws IOException {
        fake.with("a-Q4_0.gguf", "a").with("b-Q8_0.gguf", "b");
        assertRefused("several models", "a-Q4_0.gguf, b-Q8_0.gguf");
        pull("*Q8_0*");
        assertThat(folder.resolve("b-Q8_0.gguf")).hasContent("b");
        assertThat(folder.resolve("a-Q4_0.gguf")).doesNotExist();
        assertThatThrownBy(() -> pull("*.nothing")).hasMessageContaining("matches none of");
    }

    @Test
    void proxiesOfTheEnvironmentAreObeyed() throws IOException {
        Map<String, String> environment =
                Map.of("http_proxy", fake.endpoint().toString(), "NO_PROXY", "other.invalid, .inner.invalid");
        ProxySelector proxies = Proxies.of(name -> Optional.ofNullable(environment.get(name)));
        Pull pull = pull(Optional.empty(), proxies, URI.create("http://hub.invalid"));
        pull.fetch(pull.wanted(), folder, (done, total) -> {});
        assertWhole();
        for (String direct : List.of("http://other.invalid", "http://a.inner.invalid", "https://hub.invalid")) {
            assertThat(proxies.select(URI.create(direct))).containsExactly(Proxy.NO_PROXY);
        }
    }
}
