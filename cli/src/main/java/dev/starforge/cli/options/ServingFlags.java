package dev.starforge.cli.options;

import dev.starforge.serve.log.EventLog.LogLevel;
import java.nio.file.Path;
import java.util.Map;
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
    public DeviceFlags flags;

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
    public String host;

    @Option(
            names = "--api-key-file",
            paramLabel = "FILE",
            description =
                    "File with API keys, one per line; requests must send one of them (Authorization: Bearer KEY).")
    public Path keys;

    @Option(
            names = "--served-model-name",
            paramLabel = "NAME",
            description = "Model name in the API. Default: the name of the file or folder.")
    public String servedName;

    @Option(
            names = "--adapter",
            paramLabel = "NAME=DIR",
            description =
                    "LoRA adapter that requests can select by name: an adapter folder, a checkpoint or a run. Can be"
                            + " repeated.")
    public Map<String, Path> adapters = Map.of();

    @Option(
            names = "--adapter-root",
            paramLabel = "DIR",
            description =
                    "Folder from which adapters can be loaded at run time (POST /v1/load_lora_adapter). Default: none.")
    public Path adapterRoot;

    @Option(
            names = "--max-adapters",
            paramLabel = "N",
            description = "Maximum number of loaded adapters. Default: the number of --adapter options; 8 with"
                    + " --adapter-root.")
    Integer maxAdapters;

    @Option(
            names = "--max-lora-rank",
            defaultValue = "64",
            paramLabel = "N",
            description = "Maximum rank of an adapter. Default: 64.")
    public int maxRank;

    @Option(
            names = "--max-batch",
            defaultValue = "32",
            paramLabel = "N",
            description = "Maximum number of sequences in a batch, 1 to 64; further requests wait. Default: 32.")
    public int maxBatch;

    @Option(
            names = "--max-queue",
            defaultValue = "256",
            paramLabel = "N",
            description = "Maximum number of requests, including waiting ones; further requests are answered with 429."
                    + " Default: 256.")
    public int maxQueue;

    @Option(
            names = "--context",
            paramLabel = "N",
            description =
                    "Maximum number of tokens of prompt and completion. Default: the context length of the model.")
    public Integer context;

    @Option(
            names = "--kv-memory",
            paramLabel = "SIZE",
            description =
                    "Memory for the KV cache, e.g. 512M or 4G. Default: enough for --max-batch full contexts, but at"
                            + " most a quarter of the free memory.")
    public String kvMemory;

    @Option(
            names = "--inference-timeout",
            defaultValue = "300",
            paramLabel = "SECONDS",
            description = "Maximum duration of a request. Default: 300.")
    public int timeout;

    @Option(
            names = "--chat-template",
            paramLabel = "FILE",
            description = "Jinja chat template. Default: the template of the model.")
    public Path chatTemplate;

    @Option(
            names = "--log-level",
            defaultValue = "info",
            paramLabel = "LEVEL",
            description = "Log level: debug, info, warn or error. Default: info.")
    LogLevel level;

    @Option(names = "--verbose", description = "Same as --log-level debug.")
    private boolean verbose;

    public LogLevel level() {
        return verbose ? LogLevel.DEBUG : level;
    }

    /** Bytes of --kv-memory; 0 if it is not given. */
    public long kvBytes() {
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

    public int places() {
        return maxAdapters != null ? maxAdapters : Math.max(adapters.size(), adapterRoot == null ? 0 : 8);
    }

    /** Validates the options. */
    public void check(int port) {
        if (port < 0 || port > 65_535) {
            throw wrong("--port: expected 0 to 65535, got " + port);
        }
        if (servedName != null && (servedName.isBlank() || servedName.length() > 128)) {
            throw wrong("--served-model-name: expected 1 to 128 characters, got " + servedName.length());
        }
        if (adapters.containsKey("")) {
            throw wrong("--adapter: expected NAME=DIR, got an empty name");
        }
        if (maxBatch < 1 || maxBatch > 64) {
            throw wrong("--max-batch: expected 1 to 64, got " + maxBatch);
        }
        for (Map.Entry<String, Integer> each : Map.of(
                        "--max-queue", maxQueue, "--inference-timeout", timeout, "--max-lora-rank", maxRank)
                .entrySet()) {
            if (each.getValue() < 1) {
                throw wrong(each.getKey() + ": expected at least 1, got " + each.getValue());
            }
        }
        if (places() < adapters.size()) {
            throw wrong("--max-adapters: expected at least " + adapters.size() + ", the number of adapters, got "
                    + places());
        }
        kvBytes();
        if (cuda != null && metal != null) {
            throw wrong("--cuda-device and --metal-device cannot be combined");
        }
        if (cuda != null) {
            flags.force("--cuda-device", "cuda", cuda);
        }
        if (metal != null) {
            flags.force("--metal-device", "metal", metal);
        }
    }

    public ParameterException wrong(String message) {
        return new ParameterException(command.commandLine(), message);
    }

    public CommandLine commandLine() {
        return command.commandLine();
    }
}
