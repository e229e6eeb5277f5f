package dev.starforge.cli.options;

import dev.starforge.api.server.EngineOptions;
import dev.starforge.api.server.ModelServer;
import dev.starforge.api.server.OpenedDevice;
import dev.starforge.serve.WorkerOptions;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.tensor.device.Backend;
import dev.starforge.text.ErrorMessage;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.text.ChatTemplates;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Common options of {@code worker} and {@code serve}. */
public final class ServingFlags {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Mixin
    private DeviceFlags device;

    @Option(names = "--cuda-device", paramLabel = "N", description = "Same as --device cuda --device-index N.")
    private Integer cuda;

    @Option(names = "--metal-device", paramLabel = "N", description = "Same as --device metal --device-index N.")
    private Integer metal;

    @Option(
            names = "--host",
            defaultValue = "127.0.0.1",
            paramLabel = "ADDRESS",
            description =
                    "Address to listen on. An address that is reachable from other machines requires --api-key-file."
                            + " Default: 127.0.0.1.")
    private String host;

    @Option(
            names = "--api-key-file",
            paramLabel = "FILE",
            description =
                    "File with API keys, one per line; requests must send one of them (Authorization: Bearer KEY).")
    private Path keys;

    @Option(
            names = "--admin-key-file",
            paramLabel = "FILE",
            description =
                    "File with admin keys, one per line; they may also shut the server down. With --api-key-file, other keys"
                            + " may not.")
    private Path adminKeys;

    @Option(
            names = "--served-model-name",
            paramLabel = "NAME",
            description =
                    "Model name in the API. Default: the name of the file or folder; requests can then also use MODEL"
                            + " as it is given here.")
    private String servedName;

    @Option(
            names = "--adapter",
            paramLabel = "NAME=DIR",
            description =
                    "LoRA adapter that requests can select by name: an adapter folder, a checkpoint or a run. Can be"
                            + " repeated.")
    private Map<String, Path> adapters = Map.of();

    @Option(
            names = "--adapter-root",
            paramLabel = "DIR",
            description =
                    "Folder from which adapters can be loaded at run time (POST /v1/load_lora_adapter). Default: none.")
    private Path adapterRoot;

    @Option(
            names = "--max-adapters",
            paramLabel = "N",
            description = "Maximum number of loaded adapters. Default: the number of --adapter options; 8 with"
                    + " --adapter-root.")
    private Integer maxAdapters;

    @Option(
            names = "--max-lora-rank",
            defaultValue = "64",
            paramLabel = "N",
            description = "Maximum rank of an adapter. Default: 64.")
    private int maxRank;

    @Option(
            names = "--max-batch",
            defaultValue = "32",
            paramLabel = "N",
            description = "Maximum number of sequences in a batch, 1 to 64; further requests wait. Default: 32.")
    private int maxBatch;

    @Option(
            names = "--max-queue",
            defaultValue = "256",
            paramLabel = "N",
            description = "Maximum number of requests, including waiting ones; further requests are answered with 429."
                    + " Default: 256.")
    private int maxQueue;

    @Option(
            names = "--context",
            paramLabel = "N",
            description =
                    "Maximum number of tokens of prompt and completion. Default: the context length of the model.")
    private Integer context;

    @Option(
            names = "--kv-memory",
            paramLabel = "SIZE",
            description =
                    "Memory for the KV cache, e.g. 512M or 4G. Default: enough for --max-batch full contexts, but at"
                            + " most a quarter of the free memory.")
    private String kvMemory;

    @Option(
            names = "--inference-timeout",
            defaultValue = "300",
            paramLabel = "SECONDS",
            description = "Maximum duration of a request. Default: 300.")
    private int timeout;

    @Option(
            names = "--chat-template",
            paramLabel = "FILE",
            description = "Jinja chat template. Default: the template of the model.")
    private Path chatTemplate;

    @Option(
            names = "--special-tokens-in-content",
            description =
                    "Encode special tokens in chat messages, such as <|im_end|>, as special tokens: text in a message"
                            + " can then end its turn and forge another. Default: they are ordinary text.")
    private boolean specialTokensInContent;

    @Option(
            names = "--max-connections",
            defaultValue = "1024",
            paramLabel = "N",
            description = "Maximum number of open connections; further ones close the oldest that serves no request."
                    + " Default: 1024.")
    private int maxConnections;

    @Option(
            names = "--max-connections-per-address",
            defaultValue = "256",
            paramLabel = "N",
            description =
                    "Maximum number of open connections of one client address. Loopback addresses have no such limit,"
                            + " since proxies use them. Default: 256.")
    private int maxConnectionsPerAddress;

    @Option(
            names = "--log-level",
            defaultValue = "info",
            paramLabel = "LEVEL",
            description = "Log level: debug, info, warn or error. Default: info.")
    private LogLevel level;

    @Option(names = "--verbose", description = "Same as --log-level debug.")
    private boolean verbose;

    public LogLevel level() {
        return verbose ? LogLevel.DEBUG : level;
    }

    /**
     * Returns --served-model-name; otherwise the name of the model's file or folder, or the name under which it was found. Requests can
     * then also use the MODEL argument as it was given, and the file name with its extension.
     *
     * @param given the MODEL argument
     */
    public WorkerOptions.ModelNames names(String given, TunedModel tuned) {
        Path file = tuned.adapter().orElse(tuned.model());
        boolean isPath = Files.exists(Path.of(given));
        String found = ModelServer.nameOf(isPath ? file : Path.of(given));
        String id = servedName != null ? servedName : found;
        if (id.isBlank() || id.length() > 128) {
            throw wrong("--served-model-name: expected 1 to 128 characters, got " + id.length());
        }
        if (adapters.containsKey(id)) {
            throw wrong("--adapter: " + id + " is the name of the model; choose another name for the adapter");
        }
        List<String> aliases = Stream.of(given, ModelServer.nameOf(file), String.valueOf(file.getFileName()))
                .filter(name -> servedName == null && !Path.of(name).isAbsolute())
                .filter(name -> !name.equals(id) && !adapters.containsKey(name))
                .distinct()
                .toList();
        return new WorkerOptions.ModelNames(id, aliases);
    }

    /** Fails if an adapter has the name of the base that is served beside a tuned model. */
    public void requireBaseName(String base) {
        if (adapters.containsKey(base)) {
            throw wrong("--adapter: " + base
                    + " is the name of the base, which is served for comparison; choose another name for"
                    + " the adapter, or pass --no-compare");
        }
    }

    /** The API keys of --api-key-file. */
    public List<String> apiKeys() {
        return ApiKeys.read("--api-key-file", keys, this::wrong);
    }

    /** The keys of --admin-key-file. */
    public List<String> adminKeys() {
        return ApiKeys.read("--admin-key-file", adminKeys, this::wrong);
    }

    /** Options of the HTTP server. */
    public WorkerOptions worker(String workerId, WorkerOptions.ModelNames model, int port) {
        if (port < 0 || port > 65_535) {
            throw wrong("--port: expected 0 to 65535, got " + port);
        }
        if (timeout < 1) {
            throw wrong("--inference-timeout: expected at least 1, got " + timeout);
        }
        if (maxConnections < 1 || maxConnectionsPerAddress < 1) {
            throw wrong("--max-connections, --max-connections-per-address: expected at least 1, got " + maxConnections
                    + " and " + maxConnectionsPerAddress);
        }
        WorkerOptions local = WorkerOptions.local(workerId, model.id(), port);
        WorkerOptions options = local.withNames(model)
                .withAddress(new InetSocketAddress(address(), port))
                .withKeys(apiKeys(), adminKeys())
                .withLimits(local.limits().withConnections(maxConnections, maxConnectionsPerAddress), local.requests())
                .withTimes(Duration.ofSeconds(timeout), Duration.ofSeconds(30))
                .withSpecialTokensInContent(specialTokensInContent);
        return adapterRoot == null ? options : options.withAdapterRoot(adapterRoot);
    }

    private InetAddress address() {
        try {
            return InetAddress.getByName(host);
        } catch (UnknownHostException e) {
            throw wrong("--host: unknown host " + host);
        }
    }

    /** Options of the engine. */
    public EngineOptions engine() {
        int slots = maxAdapters != null ? maxAdapters : Math.max(adapters.size(), adapterRoot == null ? 0 : 8);
        Map<String, Path> found = new LinkedHashMap<>();
        adapters.forEach((name, place) ->
                found.put(name, TunedModel.adapterOf(place, "`starforge serve " + place + "` serves it")));
        return new EngineOptions(
                device.precision(),
                device.fallback(),
                maxBatch,
                maxQueue,
                Optional.ofNullable(context),
                kvBytes(),
                found,
                slots,
                maxRank,
                Optional.ofNullable(chatTemplate).map(this::template));
    }

    /** Opens the device. */
    public OpenedDevice open() {
        DeviceFlags.Opened opened = device.open();
        Backend backend = opened.selection().backend();
        return new OpenedDevice(
                opened.device(),
                MachineFacts.of(backend.name(), backend.probe().devices().get(device.deviceIndex())));
    }

    /** Applies --cuda-device and --metal-device. */
    public void selectDevice() {
        if (cuda != null && metal != null) {
            throw wrong("--cuda-device and --metal-device cannot be combined");
        }
        if (cuda != null) {
            device.force("--cuda-device", "cuda", cuda);
        }
        if (metal != null) {
            device.force("--metal-device", "metal", metal);
        }
    }

    private ChatTemplates.Source template(Path file) {
        try {
            return new ChatTemplates.Source(file, Files.readString(file));
        } catch (IOException e) {
            throw wrong("--chat-template: " + file + " cannot be read: " + ErrorMessage.of(e));
        }
    }

    /** Bytes of --kv-memory; 0 if it is not given. */
    private long kvBytes() {
        if (kvMemory == null) {
            return 0;
        }
        if (!kvMemory.matches("[1-9][0-9]{0,8}[KMGkmg]?")) {
            throw wrong("--kv-memory: expected a number of bytes such as 512M or 4G, got " + kvMemory);
        }
        String digits = kvMemory.replaceAll("[^0-9]", "");
        int shift = switch (Character.toUpperCase(kvMemory.charAt(kvMemory.length() - 1))) {
            case 'K' -> 10;
            case 'M' -> 20;
            case 'G' -> 30;
            default -> 0;
        };
        return Long.parseLong(digits) << shift;
    }

    public ParameterException wrong(String message) {
        return new ParameterException(command.commandLine(), message);
    }

    public CommandLine commandLine() {
        return command.commandLine();
    }
}
