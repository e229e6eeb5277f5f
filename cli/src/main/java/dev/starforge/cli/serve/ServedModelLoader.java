package dev.starforge.cli.serve;

import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.ServingFlags;
import dev.starforge.cli.output.ErrorMessage;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.kv.KvTensors;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.scheduler.ServedModel;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.text.ChatTemplates;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Instant;
import java.util.Comparator;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.IntConsumer;

/** Loads the model of a worker on the thread that will use it. */
public final class ServedModelLoader {
    private static final double SHARE_OF_FREE = 0.25;

    private final TunedModel tuned;
    private final String id;
    private final ServingFlags options;

    ServedModelLoader(TunedModel tuned, String id, ServingFlags options) {
        this.tuned = tuned;
        this.id = id;
        this.options = options;
    }

    /** @param progress receives the percentage loaded */
    ServedModel load(IntConsumer progress) {
        DeviceFlags.Opened opened = options.flags.open();
        Device device = opened.device();
        Scope weights = new Scope(device);
        try (ModelFiles files = ModelFiles.open(tuned.model())) {
            DeviceCheck.require(device);
            files.onLoadProgress(progress);
            Precision precision = options.flags.precision();
            Optional<AdapterTable> table = table(files, weights, precision);
            Model model = table.map(each -> files.load(weights, precision, each))
                    .orElseGet(() -> tuned.load(files, weights, precision));
            int context = context(model);
            int blocks = blocks(model, precision, context, opened);
            Tokenizer tokenizer = Tokenizers.require(tuned.model(), "serving text");
            Optional<String> template = template();
            ModelCard card = new ModelCard(
                    id,
                    files.architecture(),
                    commonType(files),
                    model.info().vocabSize(),
                    Math.min(context, blocks * Engine.BLOCK_SIZE),
                    device.name(),
                    Instant.now(),
                    tokenizer,
                    template.map(source -> ChatTemplate.parse(
                            tuned.model(),
                            source,
                            ChatTemplates.tokens(tuned.model(), tokenizer),
                            Clock.systemDefaultZone())),
                    template.map(ToolFormat::of).orElse(ToolFormat.NONE));
            Engine engine = new Engine(model, device, precision, options.flags.fallback(), blocks, options.maxBatch);
            return new ServedModel(
                    card, engine, table, files.eosTokenIds(), blocks, options.maxBatch, weights.usedBytes(), () -> {
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
        if (options.places() == 0) {
            return Optional.empty();
        }
        if (tuned.adapter().isPresent()) {
            throw options.wrong("--adapter: the model is already an adapter; pass its base as MODEL and "
                    + "the adapter as --adapter NAME=" + tuned.adapter().get());
        }
        AdapterTable.Capacity capacity = new AdapterTable.Capacity(
                options.places(), options.maxRank, AdapterTable.targets(files.architecture()), false);
        return Optional.of(new AdapterTable(capacity, weights, precision));
    }

    private int context(Model model) {
        int most = model.info().contextLength();
        if (options.context != null && (options.context < 1 || options.context > most)) {
            throw options.wrong(
                    "--context: expected 1 to " + most + " (model context length)" + ", got " + options.context);
        }
        return options.context != null ? options.context : most;
    }

    private int blocks(Model model, Precision precision, int context, DeviceFlags.Opened opened) {
        long each = KvTensors.blockBytes(model.info().kvCacheSpecs(), Engine.BLOCK_SIZE, precision.kv());
        long wanted = (long) options.maxBatch * Math.ceilDiv(context, Engine.BLOCK_SIZE);
        long bytes = options.kvBytes();
        long blocks = bytes / each; // unused blocks cache prefixes
        MachineFacts facts = MachineFacts.of(
                opened.selection().backend().name(),
                opened.selection().backend().probe().devices().get(options.flags.deviceIndex()));
        if (bytes > facts.memoryBytes()) {
            throw new MemoryException("%s: --kv-memory %s: %d bytes exceed the %d bytes of device memory"
                    .formatted(opened.device().name(), options.kvMemory, bytes, facts.memoryBytes()));
        }
        if (bytes == 0) {
            bytes = (long) (SHARE_OF_FREE * facts.freeBytes());
            blocks = Math.min(wanted, bytes / each);
        }
        if (blocks < 1) {
            throw options.wrong("--kv-memory: " + bytes + " bytes are less than one KV block of " + Engine.BLOCK_SIZE
                    + " tokens, " + each + " bytes");
        }
        return Math.toIntExact(Math.min(blocks, Integer.MAX_VALUE / Engine.BLOCK_SIZE - 1));
    }

    private Optional<String> template() {
        if (options.chatTemplate == null) {
            return ChatTemplates.source(tuned.model());
        }
        try {
            return Optional.of(Files.readString(options.chatTemplate));
        } catch (IOException failure) {
            throw new ModelException(options.chatTemplate, "cannot be read: " + ErrorMessage.of(failure), failure);
        }
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

    public static String name(Path model) {
        String file = model.toAbsolutePath().normalize().getFileName().toString();
        return file.replaceAll("\\.gguf$", "");
    }
}
