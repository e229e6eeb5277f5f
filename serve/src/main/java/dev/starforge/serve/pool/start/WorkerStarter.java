package dev.starforge.serve.pool.start;

import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.device.Deployment;
import dev.starforge.serve.pool.device.DeviceDiscovery;
import dev.starforge.serve.pool.device.MachineInfo;
import dev.starforge.serve.pool.device.PoolDevice;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import dev.starforge.serve.pool.worker.WorkerSpec;
import java.io.IOException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;

/**
 * Starts a worker for a model: preflight, placement, and stopping idle workers if memory is short. One at a time, since two workers must
 * not be placed in the same free memory.
 */
public final class WorkerStarter {
    private static final Duration POLL_INTERVAL = Duration.ofMillis(500);

    /** How long a worker that was busy may take to be reported idle. */
    private static final Duration IDLE_GRACE = Duration.ofSeconds(2);

    private final PoolConfig config;
    private final DeviceDiscovery devices;
    private final WorkerPreflight preflight;
    private final Supervisor supervisor;
    private final PoolTimeouts timing;
    private final ReentrantLock placing = new ReentrantLock();
    private volatile DeviceDiscovery.FoundDevices found;
    private volatile Optional<MachineInfo> machine = Optional.empty();

    /** Discovers devices; fails if there are none. */
    public WorkerStarter(
            PoolConfig config,
            DeviceDiscovery devices,
            WorkerPreflight preflight,
            Supervisor supervisor,
            PoolTimeouts timing)
            throws IOException, InterruptedException {
        this.config = config;
        this.devices = devices;
        this.preflight = preflight;
        this.supervisor = supervisor;
        this.timing = timing;
        found = devices.find();
    }

    /** Describes the machine with its system tools, for {@link #deployment}. */
    public void probe() throws InterruptedException {
        machine = devices.machine();
    }

    /** The default device kind with its reason; empty before {@link #probe}. */
    public Optional<Deployment> deployment() {
        return machine.map(here -> Deployment.of(here, found));
    }

    /** The devices found last. */
    public DeviceDiscovery.FoundDevices found() {
        return found;
    }

    /**
     * The worker to start.
     *
     * @param model name of a configured model, or a path
     * @param device empty for the configured one, or the machine's default
     * @param adapters replace the configured ones unless empty
     */
    public record StartRequest(String model, String device, Map<String, Path> adapters, Optional<String> replaces) {}

    /** Returns true for the name of a model of the config. */
    public boolean isConfigured(String model) {
        return config.model(model).isPresent();
    }

    /** Starts a worker; returns its id before it is ready. */
    public String start(StartRequest wanted) throws InterruptedException {
        Optional<ModelEntry> entry = config.model(wanted.model());
        Path path = entry.map(ModelEntry::path).orElseGet(() -> path(wanted.model()));
        String setting =
                wanted.device().isEmpty() ? entry.map(ModelEntry::device).orElse("") : wanted.device();
        Map<String, Path> adapters =
                wanted.adapters().isEmpty() ? entry.map(ModelEntry::adapters).orElse(Map.of()) : wanted.adapters();
        String name = entry.map(ModelEntry::name)
                .orElseGet(() -> path.getFileName().toString().replaceAll("\\.gguf$", ""));
        List<PoolDevice> possible = DevicePlacement.wanted(found, setting);
        WorkerPreflight.WorkerMemoryPlan plan =
                preflight.plan(path, possible.getFirst().kind());
        placing.lockInterruptibly();
        try {
            PoolDevice device = room(name, setting, plan);
            long free = free(device);
            WorkerSpec spec = new WorkerSpec(name, path, device.id(), adapters, plan.total(free), plan.kv(free));
            return supervisor.start(spec, wanted.replaces());
        } finally {
            placing.unlock();
        }
    }

    private static Path path(String model) {
        try {
            Path path = Path.of(model).toAbsolutePath().normalize();
            if (path.getFileName() != null) {
                return path;
            }
        } catch (InvalidPathException unusable) {
            throw noModel(model);
        }
        throw noModel(model);
    }

    private static PoolException noModel(String model) {
        return new PoolException(
                PoolError.MODEL_NOT_FOUND,
                false,
                model + ": expected the name of a configured model, or the path of a model");
    }

    /** Starts a copy of a worker, which replaces it when ready. */
    public String replace(String id) throws InterruptedException {
        WorkerSpec spec = supervisor.spec(id);
        Optional<ModelEntry> entry = config.model(spec.model());
        String model = entry.isPresent() ? spec.model() : spec.path().toString();
        return start(new StartRequest(model, spec.device(), spec.adapters(), Optional.of(id)));
    }

    /** A device with enough free memory; stops idle workers if necessary. */
    private PoolDevice room(String model, String setting, WorkerPreflight.WorkerMemoryPlan plan)
            throws InterruptedException {
        Set<String> stoppable = config.models().stream()
                .map(ModelEntry::name)
                .filter(name -> !name.equals(model))
                .collect(Collectors.toSet());
        long deadline =
                System.nanoTime() + timing.terminate().plus(timing.drain()).toNanos();
        long settled = System.nanoTime() + IDLE_GRACE.toNanos();
        boolean stopped = false;
        while (true) {
            refreshDevices();
            PoolDevice device = DevicePlacement.freest(DevicePlacement.wanted(found, setting), this::free);
            long needed = plan.total(free(device));
            if (needed <= free(device)) {
                return device;
            }
            Optional<String> victim =
                    needed <= device.total() ? supervisor.stopIdlest(device.id(), stoppable) : Optional.empty();
            stopped |= victim.isPresent();
            while (victim.isPresent() && supervisor.holds(victim.get()) && System.nanoTime() - deadline < 0) {
                supervisor.await(POLL_INTERVAL);
            }
            boolean waits = stopped
                    || needed <= device.total()
                            && System.nanoTime() - settled < 0
                            && supervisor.mayBeIdle(device.id(), stoppable);
            if (!waits || System.nanoTime() - deadline >= 0) {
                throw DevicePlacement.tooSmall(device, needed, free(device));
            }
            supervisor.await(POLL_INTERVAL);
        }
    }

    private void refreshDevices() throws InterruptedException {
        try {
            found = devices.find();
        } catch (IOException failure) {
            throw new PoolException(PoolError.DEVICE_UNAVAILABLE, true, String.valueOf(failure.getMessage()));
        }
    }

    /** Free memory: the smaller of what the pool has not reserved and what the system reports, less what loading workers will allocate. */
    public long free(PoolDevice device) {
        long unreserved = device.total() - supervisor.allocated(device.id());
        long unallocated = device.free() - supervisor.loading(device.id());
        return Math.max(0, Math.min(unreserved, unallocated));
    }
}
