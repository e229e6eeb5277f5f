package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.device.DeviceKind;
import dev.starforge.serve.pool.process.CommandRunner;
import dev.starforge.serve.pool.process.CommandRunner.CommandOutput;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * What a worker will need, asked before it is started: a child {@code starforge inspect --plan} opens the model as the worker
 * would, so that a file that cannot be read or computed with costs no worker, and the pool itself parses no model.
 */
public final class WorkerPreflight {
    private static final Duration PATIENCE = Duration.ofSeconds(120);
    private static final int PREFILL = 2048;

    /** A JVM with its code and heap, and the context of a GPU. */
    private static final long PROCESS = 512L << 20;

    private static final double HEADROOM = 0.05;
    private static final int SEQUENCES = 32;

    private final CommandRunner commands;
    private final List<String> program;

    public WorkerPreflight(CommandRunner commands, List<String> program) {
        this.commands = commands;
        this.program = List.copyOf(program);
    }

    /**
     * Bytes that a worker will need.
     *
     * @param kvContext for the keys and values of one whole context
     */
    record WorkerMemoryPlan(long weights, long kvContext, long step) {
        /** Keys and values for many sequences, but at most a quarter of what is free. */
        long kv(long free) {
            return Math.clamp(SEQUENCES * kvContext, 1 << 20, Math.max(1 << 20, free / 4));
        }

        long total(long free) {
            long bytes = weights + kv(free) + step;
            return PROCESS + bytes + (long) (HEADROOM * bytes);
        }
    }

    WorkerMemoryPlan plan(Path model, DeviceKind kind) throws InterruptedException {
        if (!Files.exists(model)) {
            throw new PoolException(
                    PoolError.MODEL_NOT_FOUND,
                    false,
                    model + ": there is no such file or folder",
                    Map.of("path", model));
        }
        List<String> command = new ArrayList<>(program);
        command.addAll(List.of("inspect", model.toString(), "--plan", "--json", "--device", kind.word()));
        command.addAll(List.of("--prefill", Integer.toString(PREFILL)));
        try {
            CommandOutput printed = commands.run(command, PATIENCE);
            if (printed.code() != 0) {
                throw new PoolException(
                        PoolError.MODEL_INCOMPATIBLE,
                        false,
                        "preflight: " + printed.reason(),
                        Map.of("path", model, "worker_type", WorkerSpec.TYPE, "device", kind.word()));
            }
            JsonNode plan = Jackson.JSON.readTree(printed.out()).path("plan");
            return new WorkerMemoryPlan(
                    plan.path("weight_bytes").longValue(),
                    plan.path("kv_bytes").longValue(),
                    plan.path("step_bytes").longValue()
                            + plan.path("workspace_bytes").longValue());
        } catch (IOException | JacksonException failure) {
            throw new PoolException(PoolError.WORKER_START_FAILED, true, "preflight: " + failure.getMessage());
        }
    }
}
