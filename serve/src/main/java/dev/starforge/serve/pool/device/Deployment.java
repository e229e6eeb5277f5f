package dev.starforge.serve.pool.device;

import dev.starforge.text.json.Jackson;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.node.ObjectNode;

/**
 * Selects the default device kind of workers on a machine, with the reason. It is a kind that workers can use; GPUs that the machine
 * has but workers cannot use are rejected. A pure function, so that every machine can be tested.
 *
 * @param kind default device kind
 * @param reason name of the device of that kind
 * @param rejected unused GPUs, each with the reason
 */
public record Deployment(DeviceKind kind, String reason, List<String> rejected) {
    private static final String NOT_OFFERED = "workers cannot use it; run `starforge devices` for the reason";

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
            return "nvidia-smi does not list it; install NVIDIA's driver";
        }
        return machine.os().equals("macOS") && !machine.arm()
                ? "an Intel Mac: Metal workers need Apple silicon"
                : "expected an NVIDIA GPU, or an Apple one on Apple silicon";
    }

    /** The capability report of a worker of this kind. */
    ObjectNode report() {
        ObjectNode report = Jackson.object();
        report.putArray("capabilities").add(kind.word());
        return report.put("device", kind.report())
                .put("backend", kind.word())
                .put("memory_architecture", kind.memory())
                .put("status", kind.status());
    }

    /** The report, with the reason and the rejected GPUs. */
    public ObjectNode json() {
        ObjectNode node = report().put("reason", reason);
        rejected.forEach(node.putArray("rejected")::add);
        return node;
    }

    /** A human-readable summary. */
    public String text() {
        return "--device " + kind.word() + ": " + reason + (rejected.isEmpty() ? "" : "; unused: " + rejected);
    }
}
