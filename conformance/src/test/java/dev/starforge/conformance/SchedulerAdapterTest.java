package dev.starforge.conformance;

import static dev.starforge.conformance.TinyServer.await;
import static dev.starforge.conformance.TinyServer.of;
import static dev.starforge.conformance.TinyServer.refused;
import static dev.starforge.conformance.TinyServer.text;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.conformance.TinyServer.Setup;
import dev.starforge.model.generate.StopReason;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.EngineException.EngineErrorKind;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ValueSource;

/** Adapters load and unload during generation; each sequence uses its own adapter and shares prefixes only within it. */
@ParameterizedClass
@ValueSource(booleans = {false, true})
final class SchedulerAdapterTest {
    private static final Path GOLDEN = TinyModel.GOLDEN.resolve("llama3");
    private static final List<String> NAMES = List.of("", "one", "two");
    private static final Map<String, int[]> ALONE = new HashMap<>();

    @TempDir
    private static Path folder;

    @Parameter
    private boolean asynchronous;

    private static Setup setup(boolean asynchronous) {
        return Setup.of("llama3", asynchronous).withAdapters(2);
    }

    private Setup setup() {
        return setup(asynchronous);
    }

    private static void drawAdapters() throws IOException {
        try (Device device =
                Selection.choose("cpu").backend().open(new DeviceOptions(0, 1, Path.of("target", "kernels")))) {
            for (int i = 1; i <= 3; i++) {
                LoraConfig settings =
                        new LoraConfig(4, 8, 0, List.of("q_proj", "k_proj", "v_proj", "o_proj"), false, false, false);
                RandomAdapter.write(path(i), GOLDEN, device, i, 0.2f, settings);
            }
        }
    }

    private static Path path(int adapter) {
        return folder.resolve("adapter-" + adapter);
    }

    private static TinyServer withTwo(boolean asynchronous) throws Exception {
        TinyServer server = new TinyServer(setup(asynchronous));
        server.scheduler.loadAdapter("one", path(1));
        server.scheduler.loadAdapter("two", path(2));
        return server;
    }

    private TinyServer withTwo() throws Exception {
        return withTwo(asynchronous);
    }

    @BeforeAll
    static void hearEachAlone() throws Exception {
        drawAdapters();
        for (String name : NAMES) {
            try (TinyServer server = withTwo(false)) {
                ALONE.put(name, server.submit(of(text(1, 40), 20, name, "")).finished());
            }
        }
    }

    @Test
    void baseAndAdaptersInOneBatchMatchSeparateRuns() throws Exception {
        assertThat(ALONE.get("one")).isNotEqualTo(ALONE.get(""));
        assertThat(ALONE.get("two")).isNotEqualTo(ALONE.get("")).isNotEqualTo(ALONE.get("one"));
        try (SingleSequenceRun base = new SingleSequenceRun("llama3");
                TinyServer server = withTwo()) {
            assertThat(ALONE.get("")).isEqualTo(base.greedy(text(1, 40), 20));
            server.hold();
            List<CollectingSink> all = new ArrayList<>();
            for (int i = 0; i < 9; i++) {
                all.add(server.submit(of(text(1, 40), 20, NAMES.get(i % 3), "")));
            }
            server.device.resume();
            for (int i = 0; i < 9; i++) {
                assertThat(all.get(i).finished()).isEqualTo(ALONE.get(NAMES.get(i % 3)));
            }
            server.idle(setup());
        }
    }

    @Test
    void prefixesAreSharedOnlyWithinAnAdapter() throws Exception {
        try (TinyServer server = withTwo()) {
            for (String name : NAMES) {
                for (int cached : new int[] {0, 32}) {
                    assertThat(server.submit(of(text(2, 40), 1, name, "")).ending())
                            .isEqualTo(new FinishReason.Completed(StopReason.MAX_TOKENS, cached));
                }
            }
        }
    }

    /** Another adapter reuses a slot while the base and the second adapter continue. */
    @Test
    void adaptersLoadAndUnloadDuringGeneration() throws Exception {
        try (TinyServer server = withTwo()) {
            server.device.pause();
            CollectingSink base = server.submit(of(text(1, 40), 20, "", ""));
            CollectingSink one = server.submit(of(text(1, 40), 20, "one", ""));
            await("a held step", server.device::isHeld);
            Thread unloading = Thread.ofPlatform().start(() -> server.scheduler.unloadAdapter("two"));
            await("the command", () -> unloading.getState() == Thread.State.WAITING);
            server.device.allow(3);
            unloading.join(20_000);
            Thread loading = Thread.ofPlatform().start(() -> server.scheduler.loadAdapter("three", path(3)));
            await("the command", () -> loading.getState() == Thread.State.WAITING);
            server.device.allow(3);
            loading.join(20_000);
            assertThat(server.scheduler.adapters().stream().map(AdapterCard::name))
                    .containsExactlyInAnyOrder("one", "three");
            CollectingSink three = server.submit(of(text(1, 40), 20, "three", ""));
            server.device.resume();
            assertThat(base.finished()).isEqualTo(ALONE.get(""));
            assertThat(one.finished()).isEqualTo(ALONE.get("one"));
            try (TinyServer other = new TinyServer(setup())) {
                other.scheduler.loadAdapter("three", path(3));
                assertThat(three.finished())
                        .isEqualTo(
                                other.submit(of(text(1, 40), 20, "three", "")).finished());
            }
        }
    }

    @Test
    void unloadedAdapterKeepsItsSlotUntilItsSequencesEnd() throws Exception {
        try (TinyServer server = withTwo()) {
            server.device.pause();
            CollectingSink heard = server.submit(of(text(1, 40), 20, "one", ""));
            SequenceHandle other = server.submit(of(text(2, 4), 200, "one", ""), new CollectingSink());
            await("a held step", server.device::isHeld);
            Thread unloading = Thread.ofPlatform().start(() -> server.scheduler.unloadAdapter("one"));
            await("the command", () -> unloading.getState() == Thread.State.WAITING);
            CollectingSink late =
                    server.submit(of(text(1, 40), 20, "one", "")); // found before it was unloaded, and still there
            server.device.resume();
            unloading.join(20_000);
            refused(EngineErrorKind.UNKNOWN_ADAPTER, () -> server.submit(of(text(1, 4), 1, "one", "")));
            refused(EngineErrorKind.UNKNOWN_ADAPTER, () -> server.scheduler.unloadAdapter("one"));
            assertThat(heard.finished()).isEqualTo(ALONE.get("one"));
            assertThat(late.finished()).isEqualTo(ALONE.get("one"));
            other.cancel();
            server.idle(setup());
            server.scheduler.loadAdapter("three", path(3));
        }
    }

    /** Its slot may belong to another adapter by then. */
    @Test
    void queuedSequenceFailsIfItsAdapterIsUnloaded() throws Exception {
        try (TinyServer server = withTwo()) {
            server.hold();
            Thread unloading = Thread.ofPlatform().start(() -> server.scheduler.unloadAdapter("one"));
            await("the command", () -> unloading.getState() == Thread.State.WAITING);
            CollectingSink heard = server.submit(of(text(1, 40), 20, "one", ""));
            CompletableFuture<List<float[]>> embedding = server.scheduler.embed(List.of(text(1, 4)), "one");
            server.device.resume();
            unloading.join(20_000);
            assertThat(heard.ending()).isInstanceOf(FinishReason.EngineFailed.class);
            assertThat(heard.tokens).isEmpty();
            assertThatThrownBy(embedding::join).hasCauseInstanceOf(EngineException.class);
        }
    }

    @Test
    void nameAndSlotAreTakenDuringUnload() throws Exception {
        try (TinyServer server = withTwo()) {
            server.device.pause();
            CollectingSink heard = server.submit(of(text(1, 40), 200, "one", ""));
            await("a held step", server.device::isHeld);
            List<Throwable> refusals = new ArrayList<>();
            Thread commanding = Thread.ofPlatform().start(() -> {
                server.scheduler.unloadAdapter("one");
                for (String name : List.of("one", "three")) {
                    try {
                        server.scheduler.loadAdapter(name, path(3));
                    } catch (EngineException refusal) {
                        refusals.add(refusal);
                    }
                }
            });
            while (commanding.isAlive()) {
                await("a command", () -> commanding.getState() == Thread.State.WAITING || !commanding.isAlive());
                server.device.allow(1);
            }
            server.device.resume();
            commanding.join(20_000);
            heard.finished();
            assertThat(refusals.stream().map(each -> ((EngineException) each).kind()))
                    .containsExactly(EngineErrorKind.ADAPTER_EXISTS, EngineErrorKind.ADAPTER_UNUSABLE);
        }
    }

    @Test
    void rejectsAdaptersThatCannotBeLoaded() throws Exception {
        Path broken = Files.createDirectories(folder.resolve("broken"));
        Files.writeString(broken.resolve("adapter_config.json"), "{");
        try (TinyServer server = withTwo()) {
            refused(EngineErrorKind.ADAPTER_EXISTS, () -> server.scheduler.loadAdapter("one", path(1)));
            refused(EngineErrorKind.ADAPTER_UNUSABLE, () -> server.scheduler.loadAdapter("three", path(3))); // no place
            refused(EngineErrorKind.UNKNOWN_ADAPTER, () -> server.scheduler.unloadAdapter("three"));
            refused(EngineErrorKind.UNKNOWN_ADAPTER, () -> server.submit(of(text(1, 4), 1, "three", "")));
            refused(
                    EngineErrorKind.UNKNOWN_ADAPTER,
                    () -> server.scheduler.embed(List.of(text(1, 4)), "three").join());
            server.scheduler.unloadAdapter("two");
            refused(
                    EngineErrorKind.ADAPTER_UNUSABLE,
                    () -> server.scheduler.loadAdapter("two", folder.resolve("nothing")));
            refused(EngineErrorKind.ADAPTER_UNUSABLE, () -> server.scheduler.loadAdapter("two", broken));
            for (String other : List.of("phi3", "deepseek_v2")) {
                refused(
                        EngineErrorKind.ADAPTER_UNUSABLE,
                        () -> server.scheduler.loadAdapter("two", TinyModel.GOLDEN.resolve(other + "/adapter")));
            }
            assertThatThrownBy(() -> server.scheduler.loadAdapter("two", broken))
                    .hasMessageStartingWith("adapter_config.json: ")
                    .hasMessageNotContaining(folder.toString());
            server.scheduler.loadAdapter("two", path(2));
        }
        try (TinyServer server = new TinyServer(Setup.of("llama3", asynchronous))) {
            refused(EngineErrorKind.ADAPTER_UNUSABLE, () -> server.scheduler.loadAdapter("one", path(1)));
        }
    }
}
