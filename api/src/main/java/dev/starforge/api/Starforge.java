package dev.starforge.api;

import dev.starforge.api.server.EngineOptions;
import dev.starforge.api.server.ModelServer;
import dev.starforge.api.server.OpenedDevice;
import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.serve.log.EventLog;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.merge.Merge;
import dev.starforge.train.merge.MergeProof;
import dev.starforge.train.merge.ModelFormat;
import dev.starforge.train.plan.LimitedDevice;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.run.TrainRun;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The entry point of the library: an open device on which models are loaded, trained and merged. Not thread-safe: use one
 * instance per thread.
 *
 * <p>Models are given as paths: a folder in HF format (config.json, safetensors, tokenizer.json), a .gguf file, a run folder, a
 * checkpoint or a PEFT adapter. Only the command line resolves model names in the local store and in the HF cache.
 */
public final class Starforge implements AutoCloseable {
    private static final long SHARD = 4L << 30;

    private final Device device;
    private final DeviceInfo info;
    private final String reason;
    private final MachineFacts machine;

    private Starforge(Device device, DeviceInfo info, String reason, MachineFacts machine) {
        this.device = device;
        this.info = info;
        this.reason = reason;
        this.machine = machine;
    }

    /**
     * Lists the devices of this machine without opening them.
     *
     * @return all devices, in the order of preference
     */
    public static List<DeviceInfo> devices() {
        List<DeviceInfo> all = new ArrayList<>();
        for (Backend backend : Selection.backends()) {
            backend.probe().devices().forEach(found -> all.add(DeviceInfo.of(backend, found)));
        }
        return List.copyOf(all);
    }

    /**
     * Opens a device.
     *
     * @param name auto, cpu, cuda, metal or reference, optionally with an index such as cuda:1. Fails if the requested device
     *     is not available.
     * @param kernelCache folder for compiled GPU kernels, created if necessary
     * @return the open device; the caller closes it
     */
    public static Starforge open(String name, Path kernelCache) {
        return StarforgeException.guard(() -> {
            DeviceChoice chosen = DeviceChoice.of(name);
            return new Starforge(
                    chosen.open(kernelCache),
                    DeviceInfo.of(chosen.backend(), chosen.detected()),
                    chosen.reason(),
                    chosen.machine());
        });
    }

    /**
     * Serves a model over HTTP on a device of its own, as the {@code serve} command does.
     *
     * @param device auto, cpu, cuda, metal or reference, optionally with an index such as cuda:1
     * @param kernelCache folder for compiled GPU kernels, created if necessary
     * @param model a folder, a .gguf file, a run, a checkpoint, or an adapter, which is applied to the base model it names
     * @param config address and limits
     * @return the server, ready for requests; the caller closes it
     */
    public static CodeModelServer serve(String device, Path kernelCache, Path model, ServeConfig config) {
        return StarforgeException.guard(() -> {
            DeviceChoice chosen = DeviceChoice.of(device);
            EngineOptions engine = new EngineOptions(
                    CodeModel.PRECISION,
                    Fallback.QUIET,
                    config.maxBatch(),
                    config.maxQueue(),
                    config.context().isPresent() ? Optional.of(config.context().getAsInt()) : Optional.empty(),
                    config.kvCacheBytes(),
                    Map.of(),
                    0,
                    1,
                    Optional.empty());
            try {
                return new CodeModelServer(ModelServer.start(
                        TunedModel.of(model, Optional.empty(), Path::of),
                        config.worker(),
                        engine,
                        () -> new OpenedDevice(chosen.open(kernelCache), chosen.machine()),
                        EventLog.silent()));
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new StarforgeException("serve: interrupted while the model was loading");
            } catch (IllegalArgumentException unusable) { // a reachable address without API keys
                throw new StarforgeException(String.valueOf(unusable.getMessage()));
            }
        });
    }

    /** A device that a name selects. */
    private record DeviceChoice(Backend backend, Probe.DetectedDevice detected, int index, String reason) {
        static DeviceChoice of(String name) {
            int colon = name.indexOf(':');
            int index = colon < 0 ? 0 : number(name, name.substring(colon + 1));
            Selection selection = Selection.choose(colon < 0 ? name : name.substring(0, colon));
            List<Probe.DetectedDevice> found = selection.backend().probe().devices();
            if (index >= found.size()) {
                throw new StarforgeException("device " + name + ": expected an index below " + found.size()
                        + ", the number of such devices");
            }
            return new DeviceChoice(selection.backend(), found.get(index), index, selection.reason());
        }

        Device open(Path kernelCache) {
            return backend.open(new DeviceOptions(index, 0, kernelCache));
        }

        MachineFacts machine() {
            return MachineFacts.of(backend.name(), detected);
        }
    }

    private static int number(String name, String digits) {
        if (!digits.matches("\\d{1,4}")) {
            throw new StarforgeException("device " + name + ": expected a number after the colon");
        }
        return Integer.parseInt(digits);
    }

    /**
     * Describes the open device.
     *
     * @return the device
     */
    public DeviceInfo device() {
        return info;
    }

    /**
     * Explains why {@code open} selected this device.
     *
     * @return the reason
     */
    public String reason() {
        return reason;
    }

    /**
     * Loads a model for generation.
     *
     * @param model a folder, a .gguf file, a run, a checkpoint, or an adapter, which is applied to the base model it names
     * @return the model; close it before this device
     */
    public CodeModel load(Path model) {
        return StarforgeException.guard(() -> new CodeModel(model, device));
    }

    /**
     * Trains on this device as a config file describes: a LoRA adapter, all weights, or a new model ({@code scratch}). The
     * checks of the {@code doctor} command run first; nothing is written if they fail.
     *
     * @param config the YAML config file, as for the command line
     * @param settings overrides, each as {@code section.key=value}
     * @param resume whether to resume from the newest checkpoint of the run
     * @param listener receives the events of the run
     * @return the result
     */
    public TrainResult train(Path config, List<String> settings, boolean resume, TrainingListener listener) {
        return StarforgeException.guard(() -> train(RunConfig.read(config).set(settings), resume, listener));
    }

    private TrainResult train(RunConfig config, boolean resume, TrainingListener listener) {
        if (!List.of("auto", info.kind()).contains(config.device())) {
            throw new StarforgeException("device.force: the config requires " + config.device()
                    + ", the open device is " + info.kind() + "; open " + config.device() + ", or remove the setting");
        }
        Device limited = config.memoryLimit() > 0 ? new LimitedDevice(device, config.memoryLimit()) : device;
        Preflight preflight =
                Preflight.of(new Preflight.Setup(config, machine, device, resume, new Paths(), Checkpoints.REAL));
        preflight.require();
        preflight
                .adaptation()
                .rows()
                .forEach(row -> listener.onNote(row.key() + ": " + row.effective() + " (" + row.why() + ")"));
        TrainingEvents events = new TrainingEvents(listener);
        try (RunFolder folder = RunFolder.claim(config, resume);
                TrainRun run = new TrainRun(TrainRun.Setup.of(preflight, limited, resume, listener::onNote, events))) {
            folder.finishOverwrite();
            events.stopWith(run::stop);
            TrainRun.End end = run.run();
            return new TrainResult(config.output(), run.step(), TrainResult.TrainOutcome.valueOf(end.name()));
        }
    }

    /**
     * Merges a LoRA adapter into its base model and writes the result. The merged model is read back and its logits are compared
     * with those of base + adapter. If they differ too much, the output is deleted and an exception states the difference.
     *
     * @param adapter a run, a checkpoint or a folder with a PEFT adapter. A base that was quantized for training is dequantized
     *     with the same values.
     * @param out output folder, or .gguf file; must not exist
     * @return the merged model and the measured difference
     */
    public MergeResult merge(Path adapter, Path out) {
        return StarforgeException.guard(() -> {
            if (Files.exists(out)) {
                throw new StarforgeException(out + " already exists; choose another file or folder");
            }
            Path lora = TunedModel.adapterOf(adapter, "`Starforge.load` loads it as it is");
            Path base = TunedModel.baseOf(lora, Optional.empty(), Path::of);
            Quantization onto = LoraAdapter.trainedOn(lora);
            ModelFormat format = out.toString().endsWith(".gguf") ? ModelFormat.GGUF : ModelFormat.HF;
            try (Merge merge = new Merge(base, lora, onto, device)) {
                MergeProof proof = merge.write(out, format, "", SHARD).proof();
                return new MergeResult(out, proof.error(), proof.allowed(), proof.change());
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
        });
    }

    /** Closes the device. Close its models first. */
    @Override
    public void close() {
        device.close();
    }

    /** Resolves models by path only. */
    private static final class Paths implements Preflight.Models {
        @Override
        public Path find(String name) {
            Path place = Path.of(name);
            if (!Files.exists(place)) {
                throw new ModelException(place, "no such model; the library accepts paths only");
            }
            return TunedModel.completeModel(place);
        }

        @Override
        public Optional<Tokenizer> tokenizer(Path model) {
            return Tokenizers.find(model);
        }
    }
}
