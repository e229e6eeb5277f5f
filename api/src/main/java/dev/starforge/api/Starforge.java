package dev.starforge.api;

import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
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
import java.util.Optional;

/**
 * An opened device, and what can be done on it. For one thread at a time; a second thread opens another one.
 *
 * <p>Models are named by their paths here: a folder as HF lays it out, a .gguf file, a run, a checkpoint or an adapter. Names
 * in a store or a cache are the business of the command line.
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
     * What this machine can compute on. Asking opens nothing.
     *
     * @return all devices, the preferred one first
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
     * @param name auto, cpu, cuda, metal or reference, with :1 for the second one of its kind; one that is missing is an
     *     error, never another one
     * @param kernelCache a folder where compiled GPU kernels are kept between runs; made when it is needed
     * @return the device; to be closed
     */
    public static Starforge open(String name, Path kernelCache) {
        int colon = name.indexOf(':');
        int index = colon < 0 ? 0 : number(name, name.substring(colon + 1));
        return StarforgeException.guard(() -> {
            Selection selection = Selection.choose(colon < 0 ? name : name.substring(0, colon));
            Backend backend = selection.backend();
            List<Probe.DetectedDevice> found = backend.probe().devices();
            if (index >= found.size()) {
                throw new StarforgeException("device " + name + ": there are " + found.size() + " of its kind, from 0");
            }
            return new Starforge(
                    backend.open(new DeviceOptions(index, 0, kernelCache)),
                    DeviceInfo.of(backend, found.get(index)),
                    selection.reason(),
                    MachineFacts.of(backend.name(), found.get(index)));
        });
    }

    private static int number(String name, String digits) {
        if (!digits.matches("\\d{1,4}")) {
            throw new StarforgeException("device " + name + ": expected a number after the colon");
        }
        return Integer.parseInt(digits);
    }

    /**
     * The device.
     *
     * @return what it is
     */
    public DeviceInfo device() {
        return info;
    }

    /**
     * The choice.
     *
     * @return why this device
     */
    public String reason() {
        return reason;
    }

    /**
     * Loads a model to generate with.
     *
     * @param model a folder, a .gguf file, a run, a checkpoint or an adapter, which is put on the base that it names
     * @return the model; to be closed before this device
     */
    public CodeModel load(Path model) {
        return StarforgeException.guard(() -> new CodeModel(model, device));
    }

    /**
     * Trains as a file of settings says, on this device: an adapter, every weight, or a new model ({@code scratch}). What is
     * looked at before a run by {@code doctor} is looked at here, too, so nothing is written where it cannot begin.
     *
     * @param config YAML, the file that every verb of the program reads
     * @param settings changes to it, each as {@code section.key=value}
     * @param resume whether to go on from the newest checkpoint of the run
     * @param listener hears how it goes
     * @return how it ended
     */
    public TrainResult train(Path config, List<String> settings, boolean resume, TrainingListener listener) {
        return StarforgeException.guard(() -> train(RunConfig.read(config).set(settings), resume, listener));
    }

    private TrainResult train(RunConfig config, boolean resume, TrainingListener listener) {
        if (!List.of("auto", info.kind()).contains(config.device())) {
            throw new StarforgeException("device.force: the settings want " + config.device() + ", and this device is "
                    + info.kind() + "; open that one, or leave the setting out");
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
            folder.settle();
            events.stopWith(run::stop);
            TrainRun.End end = run.run();
            return new TrainResult(config.output(), run.step(), TrainResult.TrainOutcome.valueOf(end.name()));
        }
    }

    /**
     * Adds an adapter to its base and writes one model. It is read back and compared with base + adapter; where they differ,
     * nothing is left under the name and an exception says by how much.
     *
     * @param adapter a run, a checkpoint or a folder with a PEFT adapter; quantized in training, its base is dequantized
     * @param out a folder, or a .gguf file, that is not there yet
     * @return the model, with the proof
     */
    public MergeResult merge(Path adapter, Path out) {
        return StarforgeException.guard(() -> {
            if (Files.exists(out)) {
                throw new StarforgeException(out + ": is there already; name another file or folder");
            }
            Path lora = TunedModel.adapterOf(adapter, "`Starforge.load` takes it as it is");
            Path base = TunedModel.baseOf(lora, Optional.empty(), Path::of);
            Quantization onto = LoraAdapter.trainedOn(lora);
            ModelFormat format = out.toString().endsWith(".gguf") ? ModelFormat.GGUF : ModelFormat.HF;
            try (Merge merge = new Merge(base, lora, onto, device)) {
                MergeProof proof = merge.write(out, format, "", SHARD).proof();
                return new MergeResult(out, proof.error(), proof.bound() * proof.range(), proof.change());
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
        });
    }

    /** Closes the device; its models must be closed before. */
    @Override
    public void close() {
        device.close();
    }

    /** Models are where their paths say. */
    private static final class Paths implements Preflight.Models {
        @Override
        public Path find(String name) {
            Path place = Path.of(name);
            if (!Files.exists(place)) {
                throw new ModelException(
                        place, "there is no such model; a library takes paths, and names only where they are folders");
            }
            return TunedModel.whole(place);
        }

        @Override
        public Optional<Tokenizer> tokenizer(Path model) {
            return Tokenizers.find(model);
        }
    }
}
