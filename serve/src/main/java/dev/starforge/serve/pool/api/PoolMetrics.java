package dev.starforge.serve.pool.api;

import dev.starforge.serve.metrics.Counter;
import dev.starforge.serve.metrics.Exposition;
import dev.starforge.serve.metrics.Histogram;
import dev.starforge.serve.metrics.Metric;
import dev.starforge.serve.pool.device.PoolDevice;
import dev.starforge.serve.pool.proxy.Relay;
import dev.starforge.serve.pool.route.WorkerRouting;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/** The metrics of a pool. */
public final class PoolMetrics implements Relay.RelayListener {
    private static final double[] FIRST_BYTE = {
        0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120
    };

    private final Counter starts = new Counter(
            "pool_worker_starts_total",
            "Starts of workers by how they ended.",
            "",
            "outcome",
            "failed",
            "ready",
            "timeout");
    private final Counter restarts = new Counter("pool_restarts_total", "Workers that were started again.", "", "", "");
    private final Counter requests = new Counter(
            "pool_requests_total",
            "Requests passed on, by how they ended.",
            "",
            "outcome",
            Stream.of(Relay.RelayOutcome.values()).map(PoolMetrics::label).toArray(String[]::new));
    private final Counter retries =
            new Counter("pool_request_retries_total", "Requests passed on to another worker.", "", "", "");
    private final Histogram firstByte = new Histogram(
            "pool_time_to_first_byte_seconds", "From a request to the first byte of its answer.", "", FIRST_BYTE);
    private final AtomicInteger running = new AtomicInteger();

    private static String label(Relay.RelayOutcome outcome) {
        return outcome.name().toLowerCase(Locale.ROOT);
    }

    /** Counts a worker event. */
    public void count(PoolEvent event) {
        switch (event.kind()) {
            case READY -> starts.add("ready", 1);
            case START_FAILED -> starts.add("failed", 1);
            case START_TIMEOUT -> starts.add("timeout", 1);
            case RESTARTING -> restarts.add("", 1);
            case STARTING, EXITED, UNREACHABLE, DRAINING, STOPPED, ADOPTED, REGISTERED -> {}
        }
    }

    @Override
    public void begun() {
        running.incrementAndGet();
    }

    @Override
    public void ended(Relay.RelayOutcome outcome) {
        running.decrementAndGet();
        requests.add(label(outcome), 1);
    }

    @Override
    public void retried() {
        retries.add("", 1);
    }

    @Override
    public void firstByte(Duration time) {
        firstByte.observe(time.toNanos() / 1e9);
    }

    /** Requests in flight. */
    int running() {
        return running.get();
    }

    /** @param allocated memory reserved on each device, in the order of {@code devices} */
    String text(List<PoolDevice> devices, List<Long> allocated, List<WorkerView> workers, WorkerRouting routing) {
        Exposition out = new Exposition();
        out.family("pool_devices_total", "Devices.", "gauge");
        out.sample("pool_devices_total", "", devices.size());
        out.family("pool_device_memory_total_bytes", "Memory of a device.", "gauge");
        devices.forEach(device -> out.sample("pool_device_memory_total_bytes", label(device), device.total()));
        out.family("pool_device_memory_allocated_bytes", "Of it, what workers hold.", "gauge");
        for (int i = 0; i < devices.size(); i++) {
            out.sample("pool_device_memory_allocated_bytes", label(devices.get(i)), allocated.get(i));
        }
        out.family("pool_workers", "Workers by what they are doing.", "gauge");
        for (WorkerState state : WorkerState.values()) {
            long count = workers.stream().filter(each -> each.state() == state).count();
            out.sample("pool_workers", "status=\"" + state.name().toLowerCase(Locale.ROOT) + "\"", count);
        }
        out.family("pool_requests_running", "Requests in flight.", "gauge");
        out.sample("pool_requests_running", "", running.get());
        out.family("pool_routed_total", "Requests by why they went where they did.", "counter");
        out.sample("pool_routed_total", "by=\"load\"", routing.byLoad());
        out.sample("pool_routed_total", "by=\"prefix\"", routing.byPrefix());
        List<Metric> counted = List.of(starts, restarts, requests, retries, firstByte);
        counted.forEach(metric -> metric.write(out));
        return out.toString();
    }

    private static String label(PoolDevice device) {
        return "device=" + Exposition.quoted(device.id());
    }
}
