package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.scheduler.Scheduler;
import dev.starforge.serve.scheduler.ServedModel;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Predicate;

/** A scheduler with a golden model on the CPU, whose steps a test can observe. */
final class TinyServer implements AutoCloseable {
    static final int VOCABULARY = 640; // of every golden model
    private static final List<String> TARGETS = List.of("q_proj", "k_proj", "v_proj", "o_proj");

    final RecordingDevice device;
    final Scheduler scheduler;

    /**
     * How it is set up.
     *
     * @param asynchronous whether the device says that it queues what it is asked for
     * @param adapters places for adapters, or 0
     * @param nanos the clock of the scheduler, given the device
     * @param first done with the engine before anything is served
     */
    record Setup(
            String model,
            boolean asynchronous,
            int blocks,
            int sequences,
            int places,
            int adapters,
            Function<RecordingDevice, LongSupplier> nanos,
            Consumer<Engine> first) {
        static Setup of(String model, boolean asynchronous) {
            return new Setup(model, asynchronous, 256, 32, 64, 0, device -> System::nanoTime, engine -> {});
        }

        Setup withBlocks(int value) {
            return new Setup(model, asynchronous, value, sequences, places, adapters, nanos, first);
        }

        Setup withSequences(int value) {
            return new Setup(model, asynchronous, blocks, value, places, adapters, nanos, first);
        }

        Setup withPlaces(int value) {
            return new Setup(model, asynchronous, blocks, sequences, value, adapters, nanos, first);
        }

        Setup withAdapters(int value) {
            return new Setup(model, asynchronous, blocks, sequences, places, value, nanos, first);
        }

        /** A clock on which each row of a step takes {@code value} nanoseconds. */
        Setup withNanosPerRow(long value) {
            return new Setup(
                    model,
                    asynchronous,
                    blocks,
                    sequences,
                    places,
                    adapters,
                    device -> () -> value * device.computed(),
                    first);
        }

        Setup withFirst(Consumer<Engine> value) {
            return new Setup(model, asynchronous, blocks, sequences, places, adapters, nanos, value);
        }
    }

    TinyServer(Setup setup) throws Exception {
        device = new RecordingDevice(
                Selection.choose("cpu").backend().open(new DeviceOptions(0, 1, Path.of("target", "kernels"))),
                VOCABULARY,
                setup.asynchronous);
        scheduler = Scheduler.start(
                () -> load(setup), setup.places, setup.nanos.apply(device), () -> Instant.ofEpochSecond(1));
    }

    private ServedModel load(Setup setup) {
        Path folder = TinyModel.GOLDEN.resolve(setup.model);
        Scope weights = new Scope(device);
        Optional<AdapterTable> table = setup.adapters == 0
                ? Optional.empty()
                : Optional.of(new AdapterTable(
                        new AdapterTable.Capacity(setup.adapters, 8, TARGETS, false), weights, Precision.FLOAT32));
        try (ModelFiles files = ModelFiles.open(folder)) {
            var model = table.isPresent()
                    ? files.load(weights, Precision.FLOAT32, table.get())
                    : files.load(weights, Precision.FLOAT32);
            Engine engine =
                    new Engine(model, device, Precision.FLOAT32, Fallback.FORBIDDEN, setup.blocks, setup.sequences);
            setup.first.accept(engine);
            ModelCard card = new ModelCard(
                    setup.model,
                    files.architecture(),
                    "F32",
                    VOCABULARY,
                    model.info().contextLength(),
                    "cpu",
                    Instant.ofEpochSecond(1),
                    Tokenizer.read(folder.resolve("tokenizer.json")),
                    Optional.empty(),
                    ToolFormat.NONE);
            return new ServedModel(card, engine, table, files.eosTokenIds(), setup.blocks, setup.sequences, 1, () -> {
                engine.close();
                weights.close();
                device.close();
            });
        }
    }

    /** Token ids that differ between sequences. */
    static int[] text(int seed, int length) {
        int[] ids = new int[length];
        for (int i = 0; i < length; i++) {
            ids[i] = Math.floorMod(31 * seed + 17 * i + i * i, VOCABULARY);
        }
        return ids;
    }

    static GenerationRequest request(int[] prompt, int maxTokens) {
        return request(prompt, maxTokens, SamplingParams.GREEDY, GenerationRequest.NO_LOGPROBS);
    }

    static GenerationRequest request(int[] prompt, int maxTokens, SamplingParams sampling, int logprobs) {
        return new GenerationRequest(prompt, maxTokens, sampling, Set.of(), logprobs, "", "");
    }

    static GenerationRequest of(int[] prompt, int maxTokens, String adapter, String tenant) {
        return new GenerationRequest(
                prompt, maxTokens, SamplingParams.GREEDY, Set.of(), GenerationRequest.NO_LOGPROBS, adapter, tenant);
    }

    SequenceHandle submit(GenerationRequest request, CollectingSink heard) {
        return scheduler.submit(request, heard);
    }

    CollectingSink submit(GenerationRequest request) {
        CollectingSink heard = new CollectingSink();
        scheduler.submit(request, heard);
        return heard;
    }

    static void refused(EngineException.EngineErrorKind kind, Runnable asked) {
        assertThatThrownBy(asked::run)
                .isInstanceOfSatisfying(
                        EngineException.class,
                        refusal -> assertThat(refusal.kind()).isEqualTo(kind));
    }

    /** Holds the engine in a step of a text that will end with it, so that what is asked meanwhile begins together. */
    void hold() throws InterruptedException {
        device.pause();
        submit(request(text(999, 1), 1));
        await("a held step", device::isHeld);
    }

    /** Waits for a status that follows what was heard so far: texts hear their ends a moment before it. */
    EngineStatus status(Predicate<EngineStatus> expected) throws InterruptedException {
        assertThatThrownBy(() -> scheduler.unloadAdapter("nobody"))
                .isInstanceOf(EngineException.class); // after that step
        await("the status, now " + scheduler.status(), () -> expected.test(scheduler.status()));
        return scheduler.status();
    }

    /** Waits until nothing runs; then nobody holds a block, and every slot is free. */
    void idle(Setup setup) throws InterruptedException {
        EngineStatus status = status(s -> s.running() == 0 && s.waiting() == 0);
        assertThat(status.kvUsage()).isZero();
        assertThat(status.freeSlots()).isEqualTo(setup.sequences());
    }

    static void await(String what, BooleanSupplier happened) throws InterruptedException {
        long begin = System.nanoTime();
        while (!happened.getAsBoolean()) {
            assertThat(System.nanoTime() - begin).as(what).isLessThan(20_000_000_000L);
            Thread.sleep(1);
        }
    }

    @Override
    public void close() {
        device.resume();
        scheduler.close();
    }
}
