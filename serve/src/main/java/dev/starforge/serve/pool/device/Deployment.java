package dev.starforge.serve.pool.device;

import dev.starforge.data.Jackson;
import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/**
 * The deployment matrix: which worker a machine gets, and why. A pure function of the machine's description, so every row is
 * tested without having the machine.
 *
 * @param kind what the worker computes on
 * @param devices how many of them
 * @param rejected GPUs that stay unused, each with the reason
 */
public record Deployment(DeviceKind kind, int devices, String reason, List<String> rejected) {
    public Deployment {
        rejected = List.copyOf(rejected);
    }

    public static Deployment of(Machine machine) {
        List<String> rejected = new ArrayList<>();
        for (String gpu : machine.unusable()) {
            rejected.add(gpu + ": " + whyNot(gpu));
        }
        if (machine.os().equals("macOS")) {
            return machine.arm() && !machine.apple().isEmpty()
                    ? new Deployment(DeviceKind.METAL, 1, "Apple silicon: " + machine.apple(), rejected)
                    : new Deployment(DeviceKind.CPU, 1, "an Intel Mac: Metal workers need Apple silicon", rejected);
        }
        return machine.nvidia().isEmpty()
                ? new Deployment(DeviceKind.CPU, 1, "no GPU that workers compute on", rejected)
                : new Deployment(
                        DeviceKind.CUDA,
                        machine.nvidia().size(),
                        machine.nvidia().getFirst().name(),
                        rejected);
    }

    private static String whyNot(String gpu) {
        return gpu.matches("(?i).*\\b(amd|ati|radeon|advanced micro devices)\\b.*")
                ? "AMD GPUs are not supported"
                : "expected an NVIDIA GPU, or an Apple one on Apple silicon";
    }

    /** The arguments of the worker that choose the device. */
    List<String> arguments(int index) {
        return kind == DeviceKind.CPU
                ? List.of("--device", kind.word())
                : List.of("--device", kind.word(), "--device-index", Integer.toString(index));
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
        return String.join(" ", arguments(0)) + ": " + reason + (rejected.isEmpty() ? "" : "; unused: " + rejected);
    }
}
