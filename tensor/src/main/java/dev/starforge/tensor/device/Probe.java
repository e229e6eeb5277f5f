package dev.starforge.tensor.device;

import dev.starforge.tensor.DType;
import java.util.List;

/**
 * The result of probing a backend.
 *
 * @param devices its devices; empty if the backend cannot be used on this machine
 * @param reason why it can or cannot be used, as a message for the user
 */
public record Probe(List<DetectedDevice> devices, String reason) {
    public Probe {
        devices = List.copyOf(devices);
    }

    public static Probe missing(String reason) {
        return new Probe(List.of(), reason);
    }

    /**
     * One device.
     *
     * @param index its number within the backend
     * @param name product name
     * @param memoryBytes memory size
     * @param unified whether the memory is shared with the host
     * @param computes activation types, the fastest first
     * @param attention the attention kernel chosen for it
     * @param attentionReason why that kernel was chosen
     * @param detail compute capability, instruction set, driver
     */
    public record DetectedDevice(
            int index,
            String name,
            long memoryBytes,
            boolean unified,
            List<DType> computes,
            String attention,
            String attentionReason,
            String detail) {
        public DetectedDevice {
            computes = List.copyOf(computes);
            if (!computes.contains(DType.F32)) {
                throw new DeviceException(name + ": computes in " + computes + ", expected F32 among them");
            }
        }
    }
}
