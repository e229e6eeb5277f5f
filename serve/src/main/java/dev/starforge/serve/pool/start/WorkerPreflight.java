package dev.starforge.serve.pool.start;

import dev.starforge.serve.pool.device.DeviceKind;
import dev.starforge.serve.pool.process.CommandRunner;
import dev.starforge.serve.pool.process.CommandRunner.CommandOutput;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerSpec;
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
 * Computes the memory that a worker needs with a child process {@code starforge inspect --plan}, which opens the model as the worker
 * would: an unusable model is detected before a worker starts, and the pool parses no model files.
 */
public final class WorkerPreflight {
    private static final Duration TIMEOUT = Duration.ofSeconds(120);
    private static final int PREFILL = 2048;

    /** JVM code and heap, and the GPU context. */
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
     * Memory of a worker in bytes.
     *
     * @param kvContext KV cache of one full context
     */
    record WorkerMemoryPlan(long weights, long kvContext, long step) {
        /** KV cache for several sequences, at most a quarter of the free memory. */
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
                    PoolError.MODEL_NOT_FOUND, false, model + ": no such file or folder", Map.of("path", model));
        }
        List<String> command = new ArrayList<>(program);
        command.addAll(List.of("inspect", model.toString(), "--plan", "--json", "--device", kind.word()));
        command.addAll(List.of("--prefill", Integer.toString(PREFILL)));
        try {
            CommandOutput printed = commands.run(command, TIMEOUT);
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
