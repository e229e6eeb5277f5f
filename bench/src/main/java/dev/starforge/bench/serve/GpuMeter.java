package dev.starforge.bench.serve;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import tools.jackson.databind.node.ObjectNode;

/**
 * How busy the first GPU of the machine is, by a process that prints a percentage every now and then; on a machine without
 * {@code nvidia-smi} nothing. A percentage is the share of the time just past in which a kernel ran, whatever part of the GPU it
 * used.
 */
final class GpuMeter implements AutoCloseable {
    static final List<String> NVIDIA_SMI = List.of(
            "nvidia-smi", "--id=0", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=100");

    /** The most that a percentage looks back; by NVML's manual, a sixth of a second to a second. */
    static final Duration LOOKS_BACK = Duration.ofSeconds(1);

    private static final int BUSY = 85;

    private final Optional<Process> process;
    private final long looksBack;
    private final Queue<Sample> samples = new ConcurrentLinkedQueue<>();

    private record Sample(long at, int percent) {}

    private GpuMeter(Optional<Process> process, Duration looksBack) {
        this.process = process;
        this.looksBack = looksBack.toNanos();
        process.ifPresent(running -> Thread.ofVirtual().start(() -> listen(running)));
    }

    static GpuMeter start(List<String> command, Duration looksBack) {
        try {
            Process process =
                    new ProcessBuilder(command).redirectErrorStream(true).start();
            return new GpuMeter(Optional.of(process), looksBack);
        } catch (IOException absent) {
            return new GpuMeter(Optional.empty(), looksBack);
        }
    }

    /** Other lines say that there is no GPU, or no driver. */
    private void listen(Process running) {
        try (BufferedReader lines = running.inputReader()) {
            lines.lines()
                    .filter(line -> line.strip().matches("\\d{1,3}"))
                    .forEach(line -> samples.add(new Sample(System.nanoTime(), Integer.parseInt(line.strip()))));
        } catch (IOException | UncheckedIOException ended) {
            return;
        }
    }

    /**
     * Says the mean of the samples that look at nothing but a span of time, and the share of those that are busy; where there are
     * none, only that.
     */
    void report(ObjectNode said, long from, long to) {
        if (process.isEmpty()) {
            return;
        }
        int[] within = samples.stream()
                .filter(sample -> sample.at - looksBack >= from && sample.at <= to)
                .mapToInt(Sample::percent)
                .toArray();
        said.put("gpu_samples", within.length);
        if (within.length > 0) {
            double sum = 0;
            double busy = 0;
            for (int percent : within) {
                sum += percent;
                busy += percent >= BUSY ? 1 : 0;
            }
            said.put("gpu_busy_mean", rounded(sum / within.length));
            said.put("gpu_busy_share_" + BUSY, rounded(busy / within.length));
        }
    }

    private static double rounded(double value) {
        return Double.parseDouble(String.format(Locale.ROOT, "%.3f", value));
    }

    @Override
    public void close() {
        process.ifPresent(Process::destroy);
    }
}
