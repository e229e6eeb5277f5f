package dev.starforge.api;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.Backend;
import dev.starforge.tensor.device.Probe;

/**
 * A device that this machine has.
 *
 * @param kind cpu, cuda, metal or reference
 * @param index which one of its kind, from 0
 * @param name as its maker calls it
 * @param memoryBytes what it can hold
 * @param unifiedMemory whether that memory is the host's
 * @param bf16 whether activations may be bf16 on it
 * @param attention the attention kernel that is chosen for it: flash or plain
 * @param attentionReason why that one
 * @param detail compute capability, instruction set, driver
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
