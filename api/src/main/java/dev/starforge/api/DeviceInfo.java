package dev.starforge.api;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Probe;

/**
 * A compute device of this machine.
 *
 * @param kind the backend: cpu, cuda, metal or reference
 * @param index device index within its kind, from 0
 * @param name the vendor's name
 * @param memoryBytes total memory in bytes
 * @param unifiedMemory whether the device shares the host's memory
 * @param bf16 whether the device supports bf16 activations
 * @param attention the attention kernel that it uses: flash or plain
 * @param attentionReason why it uses that kernel
 * @param detail compute capability, instruction set or driver version
 */
public record DeviceInfo(
        String kind,
        int index,
        String name,
        long memoryBytes,
        boolean unifiedMemory,
        boolean bf16,
        String attention,
        String attentionReason,
        String detail) {
    static DeviceInfo of(Backend backend, Probe.DetectedDevice found) {
        return new DeviceInfo(
                backend.name(),
                found.index(),
                found.name(),
                found.memoryBytes(),
                found.unified(),
                found.computes().contains(DType.BF16),
                found.attention(),
                found.attentionReason(),
                found.detail());
    }
}
