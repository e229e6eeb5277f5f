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
 * Lists the devices of this machine with a child process {@code starforge devices --json}: a failing driver crashes the child, not the
 * pool. The free memory of GPUs comes from nvidia-smi.
 */
public final class DeviceDiscovery {
    private static final Duration TIMEOUT = Duration.ofSeconds(60);

    private final CommandRunner commands;
    private final List<String> program;

    /** @param program the command line that starts this program, without a command */
    public DeviceDiscovery(CommandRunner commands, List<String> program) {
        this.commands = commands;
        this.program = List.copyOf(program);
    }

    /**
     * The devices of a machine.
     *
     * @param preferred default kind
     */
    public record FoundDevices(List<PoolDevice> devices, DeviceKind preferred) {
        public FoundDevices {
            devices = List.copyOf(devices);
        }

        boolean has(DeviceKind kind) {
            return devices.stream().anyMatch(device -> device.kind() == kind);
        }
    }

    /** Describes the machine with its system tools, which can take a minute; empty if they fail. */
    public Optional<MachineInfo> machine() throws InterruptedException {
        return new MachineProbe(commands).machine();
    }

    public FoundDevices find() throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(program);
        command.addAll(List.of("devices", "--json"));
        CommandOutput printed = commands.run(command, TIMEOUT);
        if (printed.code() != 0) {
            return gpusAlone(printed.reason());
        }
        FoundDevices found = parse(printed.out());
        return found.has(DeviceKind.CUDA) ? new FoundDevices(withFree(found.devices()), found.preferred()) : found;
    }

    /** The child failed; falls back to the GPUs that nvidia-smi lists. */
    private FoundDevices gpusAlone(String why) throws IOException, InterruptedException {
        try {
            List<PoolDevice> gpus = ProbeParsers.nvidiaSmi(
                    commands.run(ProbeParsers.NVIDIA_SMI, TIMEOUT).out());
            if (!gpus.isEmpty()) {
                return new FoundDevices(gpus, DeviceKind.CUDA);
            }
        } catch (IOException noTool) {
            throw new IOException("devices: " + why + "; and " + noTool.getMessage(), noTool);
        }
        throw new IOException("devices: " + why);
    }

    /** Parses the backends for serving, without the reference backend. */
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
        Map<String, PoolDevice> bySmi;
        try {
            bySmi = ProbeParsers.nvidiaSmi(
                            commands.run(ProbeParsers.NVIDIA_SMI, TIMEOUT).out())
                    .stream()
                    .collect(Collectors.toMap(PoolDevice::id, Function.identity()));
        } catch (IOException noTool) {
            return devices;
        }
        return devices.stream()
                .map(device -> {
                    long free = bySmi.getOrDefault(device.id(), device).free();
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
