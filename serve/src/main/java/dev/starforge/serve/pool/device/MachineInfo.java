package dev.starforge.serve.pool.device;

import java.util.List;

/**
 * A machine as its system tools describe it.
 *
 * @param os {@code Linux}, {@code macOS} or {@code Windows}
 * @param arm whether the CPU is ARM; on a Mac, Apple silicon
 * @param memory bytes of main memory
 * @param nvidia its NVIDIA GPUs
 * @param apple name of the Apple GPU; empty if there is none
 * @param unusable names of GPUs that workers cannot use
 */
public record MachineInfo(
        String os,
        boolean arm,
        String processor,
        long memory,
        List<PoolDevice> nvidia,
        String apple,
        List<String> unusable) {
    public MachineInfo {
        nvidia = List.copyOf(nvidia);
        unusable = List.copyOf(unusable);
    }
}
