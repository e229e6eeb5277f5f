package dev.starforge.tensor.device;

import dev.starforge.tensor.DType;
import java.util.List;

/**
 * What a backend found.
 *
 * @param found its devices; empty when it cannot be used here
 * @param reason why it can or cannot be used, for people
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
     * @param name as its maker calls it
     * @param memoryBytes what it can hold
     * @param unified whether that memory is the host's
     * @param computes the types that activations may have on it, first the one it is fastest in
     * @param attention the attention kernel chosen for it
     * @param attentionReason why that one
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
