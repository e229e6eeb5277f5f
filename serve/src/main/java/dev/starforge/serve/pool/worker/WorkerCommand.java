package dev.starforge.serve.pool.worker;

import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * The command line of a worker.
 *
 * @param program the command line that starts this program, without a command
 * @param keyFile API keys of clients, who may also call workers directly
 * @param pool URL of this pool, once it listens
 */
public record WorkerCommand(List<String> program, Optional<Path> keyFile, Supplier<URI> pool) {
    public static final String READY_PATH = "/v2/internal/workers/ready";

    public WorkerCommand {
        program = List.copyOf(program);
    }

    /** The command line, which other users can read: the worker reads the secret of its start from its standard input. */
    public List<String> of(String id, WorkerSpec spec) {
        List<String> command = new ArrayList<>(program);
        command.addAll(
                List.of("worker", "--worker-id", id, "--model", spec.path().toString(), "--port", "0"));
        command.addAll(List.of("--served-model-name", spec.model()));
        String[] device = spec.device().split(":");
        command.addAll(List.of("--device", device[0]));
        if (device.length > 1) {
            command.addAll(List.of("--device-index", device[1]));
        }
        if (spec.kvBytes() > 0) {
            command.addAll(List.of("--kv-memory", Long.toString(spec.kvBytes() >> 10) + "K"));
        }
        spec.adapters().forEach((name, path) -> command.addAll(List.of("--adapter", name + "=" + path)));
        keyFile.ifPresent(file -> command.addAll(List.of("--api-key-file", file.toString())));
        command.addAll(List.of("--callback-url", pool.get() + READY_PATH, "--start-secret-stdin"));
        return command;
    }
}
