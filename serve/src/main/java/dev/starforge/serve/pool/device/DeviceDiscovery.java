package dev.starforge.serve.pool.device;

import dev.starforge.serve.pool.process.CommandRunner;
import dev.starforge.serve.pool.process.CommandRunner.CommandOutput;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * The devices of this machine, asked from a child {@code starforge devices --json}: the pool itself loads no backend, so a
 * driver that fails takes the child with it and not the pool. What the child does not say of a GPU's free memory, NVIDIA's own tool does.
 */
public final class DeviceDiscovery {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final CommandRunner commands;
    private final List<String> program;

    /** @param program how this program is started, without a verb */
    public DeviceDiscovery(CommandRunner commands, List<String> program) {
        this.commands = commands;
        this.program = List.copyOf(program);
    }

    /**
     * What was found.
     *
     * @param preferred the kind that a worker gets when nobody says
     */
    public record FoundDevices(List<PoolDevice> devices, DeviceKind preferred) {
        public FoundDevices {
            devices = List.copyOf(devices);
        }

        boolean has(DeviceKind kind) {
            return devices.stream().anyMatch(device -> device.kind() == kind);
        }
    }

    /** What the machine's own tools say of it, which may take them a minute; empty where they say nothing. */
    public Optional<MachineInfo> machine() throws InterruptedException {
        return new MachineProbe(commands).machine();
    }

    public FoundDevices find() throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(program);
        command.addAll(List.of("devices", "--json"));
        CommandOutput printed = commands.run(command, PATIENCE);
        if (printed.code() != 0) {
            return gpusAlone(printed.reason());
        }
        FoundDevices found = parse(printed.out());
        return found.has(DeviceKind.CUDA) ? new FoundDevices(withFree(found.devices()), found.preferred()) : found;
    }

    /** The child failed: the GPUs that NVIDIA's tool knows are there all the same. */
    private FoundDevices gpusAlone(String why) throws IOException, InterruptedException {
        try {
            List<PoolDevice> gpus = ProbeParsers.nvidiaSmi(
                    commands.run(ProbeParsers.NVIDIA_SMI, PATIENCE).out());
            if (!gpus.isEmpty()) {
                return new FoundDevices(gpus, DeviceKind.CUDA);
            }
        } catch (IOException noTool) {
            throw new IOException("devices: " + why + "; and " + noTool.getMessage(), noTool);
        }
        throw new IOException("devices: " + why);
    }

    /** Of the backends those that are for serving; the reference is for comparing with. */
    static FoundDevices parse(String json) throws IOException {
        try {
            JsonNode root = Jackson.JSON.readTree(json);
            List<PoolDevice> devices = new ArrayList<>();
            for (JsonNode backend : root.path("backends")) {
                if (!backend.path("name").asString().matches("cpu|cuda|metal")) {
                    continue;
                }
                DeviceKind kind = DeviceKind.of(backend.path("name").asString());
                for (JsonNode device : backend.path("devices")) {
                    long total = device.path("memory_bytes").longValue();
                    devices.add(new PoolDevice(
                            kind,
                            device.path("index").intValue(),
                            device.path("name").asString(),
                            total,
                            device.path("free_bytes").longValue(total)));
                }
            }
            return new FoundDevices(devices, DeviceKind.of(root.path("selected").asString()));
        } catch (JacksonException | IllegalArgumentException unusable) {
            throw new IOException(
                    "devices: expected the JSON of `starforge devices --json`: " + unusable.getMessage(), unusable);
        }
    }

    private List<PoolDevice> withFree(List<PoolDevice> devices) throws InterruptedException {
        Map<String, PoolDevice> said;
        try {
            said = ProbeParsers.nvidiaSmi(
                            commands.run(ProbeParsers.NVIDIA_SMI, PATIENCE).out())
                    .stream()
                    .collect(Collectors.toMap(PoolDevice::id, Function.identity()));
        } catch (IOException noTool) {
            return devices;
        }
        return devices.stream()
                .map(device -> {
                    long free = said.getOrDefault(device.id(), device).free();
                    return new PoolDevice(
                            device.kind(),
                            device.index(),
                            device.name(),
                            device.total(),
                            Math.min(free, device.free()));
                })
                .toList();
    }
}
