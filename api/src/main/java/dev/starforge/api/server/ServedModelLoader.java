package dev.starforge.api.server;

import dev.starforge.model.Model;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.kv.KvTensors;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.serve.WorkerOptions.ModelNames;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.scheduler.ServedModel;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.text.ChatTemplates;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.time.Clock;
import java.time.Instant;
import java.util.Comparator;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.IntConsumer;

/** Loads the model of a worker on the thread that will use it. */
final class ServedModelLoader {
    private static final double SHARE_OF_FREE = 0.25;

    private final TunedModel tuned;
    private final ModelNames names;
    private final EngineOptions options;

    ServedModelLoader(TunedModel tuned, ModelNames names, EngineOptions options) {
        this.tuned = tuned;
        this.names = names;
        this.options = options;
    }

    /** @param progress receives the percentage loaded */
    ServedModel load(OpenedDevice opened, IntConsumer progress) {
        Device device = opened.device();
        Scope weights = new Scope(device);
        try (ModelFiles files = ModelFiles.open(tuned.model())) {
            DeviceCheck.require(device);
            files.onLoadProgress(progress);
            Precision precision = options.precision();
            Optional<AdapterTable> table = table(files, weights, precision);
            Model model = table.map(each -> files.load(weights, precision, each))
                    .orElseGet(() -> tuned.load(files, weights, precision));
            int context = context(model);
            int blocks = blocks(model, precision, context, opened);
            Tokenizer tokenizer = Tokenizers.require(tuned.model(), "serving text");
            Optional<ChatTemplates.Source> template =
                    options.chatTemplate().or(() -> ChatTemplates.find(tuned.model()));
            ModelCard card = new ModelCard(
                    names.id(),
                    options.base(),
                    files.architecture(),
                    commonType(files),
                    model.info().vocabSize(),
                    Math.min(context, blocks * Engine.BLOCK_SIZE),
                    device.name(),
                    Instant.now(),
                    tokenizer,
                    template.map(source -> source.parse(tuned.model(), tokenizer, Clock.systemDefaultZone())),
                    template.map(source -> ToolFormat.of(source.text())).orElse(ToolFormat.NONE),
                    names.aliases(),
                    options.sample());
            Engine engine = new Engine(model, device, precision, options.fallback(), blocks, options.maxBatch());
            return new ServedModel(
                    card, engine, table, files.eosTokenIds(), blocks, options.maxBatch(), weights.usedBytes(), () -> {
                        engine.close();
                        weights.close();
                        device.close();
                    });
        } catch (RuntimeException | Error failure) {
            weights.close();
            device.close();
            throw failure;
        }
    }

    private Optional<AdapterTable> table(ModelFiles files, Scope weights, Precision precision) {
        if (options.maxAdapters() == 0) {
            return Optional.empty();
        }
        if (tuned.adapter().isPresent()) {
            throw new InvalidOptionException(
                    "adapter",
                    "the model is already an adapter; pass its base as MODEL and the adapter as --adapter NAME="
                            + tuned.adapter().get());
        }
        AdapterTable.Capacity capacity = new AdapterTable.Capacity(
                options.maxAdapters(), options.maxLoraRank(), AdapterTable.targets(files.architecture()), false);
        return Optional.of(new AdapterTable(capacity, weights, precision));
    }

    private int context(Model model) {
        int longest = model.info().contextLength();
        int context = options.context().orElse(longest);
        if (context < 1 || context > longest) {
            throw new InvalidOptionException(
                    "context", "expected 1 to " + longest + " (model context length), got " + context);
        }
        return context;
    }

    private int blocks(Model model, Precision precision, int context, OpenedDevice opened) {
        long each = KvTensors.blockBytes(model.info().kvCacheSpecs(), Engine.BLOCK_SIZE, precision.kv());
        long wanted = (long) options.maxBatch() * Math.ceilDiv(context, Engine.BLOCK_SIZE);
        long bytes = options.kvBytes();
        long blocks = bytes / each; // unused blocks cache prefixes
        MachineFacts machine = opened.machine();
        if (bytes > machine.memoryBytes()) {
            throw new MemoryException("%s: --kv-memory: %d bytes exceed the %d bytes of device memory"
                    .formatted(opened.device().name(), bytes, machine.memoryBytes()));
        }
        if (bytes == 0) {
            bytes = (long) (SHARE_OF_FREE * machine.freeBytes());
            blocks = Math.min(wanted, bytes / each);
        }
        if (blocks < 1) {
            throw new InvalidOptionException(
                    "kv-memory",
                    bytes + " bytes are less than one KV block of " + Engine.BLOCK_SIZE + " tokens, " + each
                            + " bytes");
        }
        return Math.toIntExact(Math.min(blocks, Integer.MAX_VALUE / Engine.BLOCK_SIZE - 1));
    }

    /** The type of most weights. */
    private static String commonType(ModelFiles files) {
        Map<String, Long> sizes = new TreeMap<>();
        files.tensors().forEach(each -> sizes.merge(each.dtype(), each.shape().size(), Long::sum));
        return sizes.entrySet().stream()
                .max(Comparator.comparingLong(Map.Entry::getValue))
                .map(Map.Entry::getKey)
                .orElse("");
    }
}
