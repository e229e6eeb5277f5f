package dev.starforge.serve.pool.device;

import java.util.Locale;

/** The kind of device that a worker uses, as in {@code starforge worker --device}. */
public enum DeviceKind {
    CPU("cpu", "system", "ready"),
    CUDA("nvidia_gpu", "vram-only", "ready"),
    METAL("apple_silicon_gpu", "unified", "pre-release");

    private final String report;
    private final String memory;
    private final String status;

    DeviceKind(String report, String memory, String status) {
        this.report = report;
        this.memory = memory;
        this.status = status;
    }

    public String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Its name in a capability report. */
    String report() {
        return report;
    }

    String memory() {
        return memory;
    }

    /** {@code pre-release} until tested on real hardware. */
    String status() {
        return status;
    }

    static DeviceKind of(String word) {
        for (DeviceKind kind : values()) {
            if (kind.word().equals(word)) {
                return kind;
            }
        }
        throw new IllegalArgumentException("device: expected cpu, cuda or metal, got " + word);
    }
}
