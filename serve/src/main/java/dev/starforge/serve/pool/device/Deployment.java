package dev.starforge.serve.pool.device;

import dev.starforge.text.json.Jackson;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.node.ObjectNode;

/**
 * The deployment matrix: which worker a machine gets, and why. The kind is that of the devices that were found, since a GPU
 * may be there without what workers need to compute on it; of the machine's own description come the GPUs that stay unused. A
 * pure function of both, so every row is tested without having the machine.
 *
 * @param kind what a worker computes on when nobody says
 * @param reason the device of that kind
 * @param rejected GPUs that stay unused, each with the reason
 */
public record Deployment(DeviceKind kind, String reason, List<String> rejected) {
    private static final String NOT_OFFERED = "workers cannot compute on it here; `starforge devices` says why";

    public Deployment {
        rejected = List.copyOf(rejected);
    }

    public static Deployment of(MachineInfo machine, DeviceDiscovery.FoundDevices found) {
        boolean cuda = found.has(DeviceKind.CUDA);
        List<String> rejected = new ArrayList<>();
        for (String gpu : machine.unusable()) {
            if (!cuda || !isNvidia(gpu)) {
                rejected.add(gpu + ": " + whyNot(machine, gpu));
            }
        }
        if (!cuda) {
            machine.nvidia().forEach(gpu -> rejected.add(gpu.name() + ": " + NOT_OFFERED));
        }
        if (!machine.apple().isEmpty() && !found.has(DeviceKind.METAL)) {
            rejected.add(machine.apple() + ": " + NOT_OFFERED);
        }
        String reason = found.devices().stream()
                .filter(device -> device.kind() == found.preferred())
                .map(PoolDevice::name)
                .findFirst()
                .orElse("");
        return new Deployment(found.preferred(), reason, rejected);
    }

    private static boolean isNvidia(String gpu) {
        return gpu.toUpperCase(Locale.ROOT).contains("NVIDIA");
    }

    private static String whyNot(MachineInfo machine, String gpu) {
        if (gpu.matches("(?i).*\\b(amd|ati|radeon|advanced micro devices)\\b.*")) {
            return "AMD GPUs are not supported";
        }
        if (isNvidia(gpu)) {
            return "nvidia-smi does not know it; expected NVIDIA's driver";
        }
        return machine.os().equals("macOS") && !machine.arm()
                ? "an Intel Mac: Metal workers need Apple silicon"
                : "expected an NVIDIA GPU, or an Apple one on Apple silicon";
    }

    /** What a worker of this kind reports of itself. */
    ObjectNode report() {
        ObjectNode report = Jackson.object();
        report.putArray("capabilities").add(kind.word());
        return report.put("device", kind.report())
                .put("backend", kind.word())
                .put("memory_architecture", kind.memory())
                .put("status", kind.status());
    }

    /** The report, with why it is so, and the GPUs that stay unused. */
    public ObjectNode json() {
        ObjectNode node = report().put("reason", reason);
        rejected.forEach(node.putArray("rejected")::add);
        return node;
    }

    /** For people. */
    public String text() {
        return "--device " + kind.word() + ": " + reason + (rejected.isEmpty() ? "" : "; unused: " + rejected);
    }
}
