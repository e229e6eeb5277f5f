package dev.starforge.serve.pool.device;

import java.util.List;

/**
 * A machine as its own tools describe it.
 *
 * @param os {@code Linux}, {@code macOS} or {@code Windows}
 * @param arm whether its processor is an ARM one; on a Mac, Apple's
 * @param memory bytes of main memory
 * @param nvidia its NVIDIA GPUs
 * @param apple the name of its Apple GPU; empty without
 * @param unusable GPUs that no worker computes on, by name
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
