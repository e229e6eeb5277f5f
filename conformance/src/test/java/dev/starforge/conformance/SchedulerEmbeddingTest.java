package dev.starforge.conformance;

import static dev.starforge.conformance.TinyServer.await;
import static dev.starforge.conformance.TinyServer.request;
import static dev.starforge.conformance.TinyServer.text;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.TinyServer.Setup;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** Embeddings, batched with each other and with generation. */
@ParameterizedClass
@ValueSource(booleans = {false, true})
final class SchedulerEmbeddingTest {
    @Parameter
    private boolean asynchronous;

    private Setup setup() {
        return Setup.of("llama3", asynchronous);
    }

    private static float[] alone(int[] text) throws Exception {
        try (TinyServer server = new TinyServer(Setup.of("llama3", false))) {
            return one(server.scheduler.embed(List.of(text), ""));
        }
    }

    private static float[] one(CompletableFuture<List<float[]>> asked) throws Exception {
        return asked.get(20, TimeUnit.SECONDS).getFirst();
    }

    @Test
    void batchedEmbeddingsMatchSeparateOnes() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            server.hold();
            List<int[]> texts =
                    IntStream.range(0, 5).mapToObj(i -> text(i, 4 + i)).toList();
            var together = server.scheduler.embed(texts.subList(0, 4), "");
            var another = server.scheduler.embed(texts.subList(4, 5), "");
            server.device.resume();
            List<float[]> vectors = new ArrayList<>(together.get(20, TimeUnit.SECONDS));
            vectors.add(one(another));
            assertThat(server.device.steps).containsExactly(1, 4 + 5 + 6 + 7 + 8);
            for (int i = 0; i < 5; i++) {
                assertThat(vectors.get(i)).as("text %d", i).isEqualTo(alone(texts.get(i)));
            }
            server.idle(setup());
        }
    }

    /** With 10 ms per token, a step has 16 tokens. */
    @Test
    void longInputIsChunkedAndDoesNotBlockOthers() throws Exception {
        Setup setup = setup().withNanosPerRow(10_000_000);
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            one(server.scheduler.embed(List.of(text(9, 60)), "")); // so that the time of a token is known
            server.hold();
            server.device.steps.clear();
            CollectingSink heard = server.submit(request(text(2, 5), 12));
            var vector = server.scheduler.embed(List.of(text(1, 100)), "");
            server.device.resume();
            assertThat(heard.finished()).isEqualTo(alone.greedy(text(2, 5), 12));
            assertThat(one(vector)).isEqualTo(alone(text(1, 100)));
            assertThat(server.device.steps).allMatch(rows -> rows <= 16);
            assertThat(server.device.steps.stream().filter(rows -> rows == 16)).hasSizeGreaterThanOrEqualTo(6);
            server.idle(setup);
        }
    }

    /** Six blocks: an input of 80 tokens holds five of them when another sequence grows to 60. */
    @Test
    void generationPreemptsEmbeddingWhichRestarts() throws Exception {
        Setup setup = setup().withBlocks(6).withNanosPerRow(10_000_000);
        try (SingleSequenceRun alone = new SingleSequenceRun("llama3");
                TinyServer server = new TinyServer(setup)) {
            one(server.scheduler.embed(List.of(text(9, 60)), ""));
            server.device.pause();
            var vector = server.scheduler.embed(List.of(text(1, 80)), "");
            await("a held step", server.device::isHeld);
            CollectingSink heard = server.submit(request(text(2, 4), 56));
            server.device.resume();
            assertThat(heard.finished()).isEqualTo(alone.greedy(text(2, 4), 56));
            assertThat(one(vector)).isEqualTo(alone(text(1, 80)));
            server.idle(setup);
        }
    }

    @Test
    void cancelledRequestReleasesBlocks() throws Exception {
        Setup setup = setup().withNanosPerRow(10_000_000);
        try (TinyServer server = new TinyServer(setup)) {
            server.device.pause();
            var gone = server.scheduler.embed(List.of(text(1, 100), text(2, 100)), "");
            await("a held step", server.device::isHeld);
            gone.cancel(true);
            var next = server.scheduler.embed(List.of(text(3, 20)), "");
            server.device.resume();
            assertThat(one(next)).isEqualTo(alone(text(3, 20)));
            server.idle(setup);
            assertThat(server.device.computed()).isLessThan(200);
        }
    }

    @Test
    void warmUpComputesPromptAndTokensAndReleasesBlocks() throws Exception {
        try (TinyServer server = new TinyServer(setup())) {
            server.scheduler.warmUp();
            assertThat(server.device.steps).hasSizeGreaterThanOrEqualTo(2);
            server.idle(setup());
        }
    }

    /**
     * For which a GPU has kernels of their own. There is room for 32 sequences: batches of 16 and 32 texts of four tokens, each of
     * which shares its four steps; or for fewer requests.
     */
    @Test
    void warmUpOfAsynchronousDeviceComputesBatches() throws Exception {
        assertThat(warmedUp(setup())).startsWith(64, 1, 1, 1).hasSize(asynchronous ? 4 + 4 + 4 : 4);
        assertThat(warmedUp(setup().withPlaces(20))).hasSize(asynchronous ? 4 + 4 : 4);
    }

    private static List<Integer> warmedUp(Setup setup) throws Exception {
        try (TinyServer server = new TinyServer(setup)) {
            server.scheduler.warmUp();
            return List.copyOf(server.device.steps);
        }
    }
}
