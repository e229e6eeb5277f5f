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
 * Samples the utilization of the first GPU from a process that prints percentages; does nothing on a machine without
 * {@code nvidia-smi}. A percentage is the share of the last sampling interval in which at least one kernel ran.
 */
final class GpuMeter implements AutoCloseable {
    static final List<String> NVIDIA_SMI = List.of(
            "nvidia-smi", "--id=0", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=100");

    /** The longest sampling interval; according to NVML's manual it is between 1/6 s and 1 s. */
    static final Duration SAMPLING_INTERVAL = Duration.ofSeconds(1);

    private static final int BUSY = 85;

    private final Optional<Process> process;
    private final long samplingInterval;
    private final Queue<Sample> samples = new ConcurrentLinkedQueue<>();

    private record Sample(long at, int percent) {}

    private GpuMeter(Optional<Process> process, Duration samplingInterval) {
        this.process = process;
        this.samplingInterval = samplingInterval.toNanos();
        process.ifPresent(running -> Thread.ofVirtual().start(() -> listen(running)));
    }

    static GpuMeter start(List<String> command, Duration samplingInterval) {
        try {
            Process process =
                    new ProcessBuilder(command).redirectErrorStream(true).start();
            return new GpuMeter(Optional.of(process), samplingInterval);
        } catch (IOException e) {
            return new GpuMeter(Optional.empty(), samplingInterval);
        }
    }

    /** Ignores other lines, which report a missing GPU or driver. */
    private void listen(Process running) {
        try (BufferedReader lines = running.inputReader()) {
            lines.lines()
                    .filter(line -> line.strip().matches("\\d{1,3}"))
                    .forEach(line -> samples.add(new Sample(System.nanoTime(), Integer.parseInt(line.strip()))));
        } catch (IOException | UncheckedIOException e) {
            return;
        }
    }

    /**
     * Reports the mean of the samples whose interval lies between {@code from} and {@code to}, and the share of samples of at
     * least {@value #BUSY} percent; without such samples, only their number.
     */
    void report(ObjectNode report, long from, long to) {
        if (process.isEmpty()) {
            return;
        }
        int[] within = samples.stream()
                .filter(sample -> sample.at - samplingInterval >= from && sample.at <= to)
                .mapToInt(Sample::percent)
                .toArray();
        report.put("gpu_samples", within.length);
        if (within.length > 0) {
            double sum = 0;
            double busy = 0;
            for (int percent : within) {
                sum += percent;
                busy += percent >= BUSY ? 1 : 0;
            }
            report.put("gpu_busy_mean", rounded(sum / within.length));
            report.put("gpu_busy_share_" + BUSY, rounded(busy / within.length));
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
