package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.device.Deployment;
import dev.starforge.serve.pool.device.DeviceDiscovery;
import dev.starforge.serve.pool.device.MachineInfo;
import dev.starforge.serve.pool.device.PoolDevice;
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
 * From a model to a worker that is being started: preflight, placement, room. One at a time, since two that saw the same free
 * memory could not both have it.
 */
public final class WorkerStarter {
    private static final Duration LOOK = Duration.ofMillis(500);

    /** How long one that was busy a moment ago may take to be found idle. */
    private static final Duration SETTLES = Duration.ofSeconds(2);

    private final PoolConfig config;
    private final DeviceDiscovery devices;
    private final WorkerPreflight preflight;
    private final Supervisor supervisor;
    private final PoolTimeouts timing;
    private final ReentrantLock placing = new ReentrantLock();
    private volatile DeviceDiscovery.FoundDevices found;
    private volatile Optional<MachineInfo> machine = Optional.empty();

    /** Looks for devices: a pool without any cannot be. */
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

    /** Asks the machine's own tools what it is. Nothing but {@link #deployment} waits for them. */
    public void probe() throws InterruptedException {
        machine = devices.machine();
    }

    /** Which workers this machine is for, and why; empty until its tools have said something. */
    public Optional<Deployment> deployment() {
        return machine.map(here -> Deployment.of(here, found));
    }

    /** What was found when somebody looked last. */
    public DeviceDiscovery.FoundDevices found() {
        return found;
    }

    /**
     * What is asked for.
     *
     * @param model the name of a model in the config, or a path
     * @param device empty is the config's, or the machine's best
     * @param adapters instead of the config's; none is those
     */
    public record StartRequest(String model, String device, Map<String, Path> adapters, Optional<String> replaces) {}

    /** Starts a worker; its id. It is not ready then. */
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
                PoolError.MODEL_NOT_FOUND, false, model + ": expected a name of the config, or the path of a model");
    }

    /** The same as a worker that runs, to take its place. */
    public String replace(String id) throws InterruptedException {
        WorkerSpec spec = supervisor.spec(id);
        Optional<ModelEntry> entry = config.model(spec.model());
        String model = entry.isPresent() ? spec.model() : spec.path().toString();
        return start(new StartRequest(model, spec.device(), spec.adapters(), Optional.of(id)));
    }

    /** A device with room, made by stopping what nobody uses if there is none; memory counts as free when the system says so. */
    private PoolDevice room(String model, String setting, WorkerPreflight.WorkerMemoryPlan plan)
            throws InterruptedException {
        Set<String> stoppable = config.models().stream()
                .map(ModelEntry::name)
                .filter(name -> !name.equals(model))
                .collect(Collectors.toSet());
        long deadline =
                System.nanoTime() + timing.terminate().plus(timing.drain()).toNanos();
        long settled = System.nanoTime() + SETTLES.toNanos();
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
                supervisor.await(LOOK);
            }
            boolean waits = stopped
                    || needed <= device.total()
                            && System.nanoTime() - settled < 0
                            && supervisor.mayBeIdle(device.id(), stoppable);
            if (!waits || System.nanoTime() - deadline >= 0) {
                throw DevicePlacement.tooSmall(device, needed, free(device));
            }
            supervisor.await(LOOK);
        }
    }

    private void refreshDevices() throws InterruptedException {
        try {
            found = devices.find();
        } catch (IOException failure) {
            throw new PoolException(PoolError.DEVICE_UNAVAILABLE, true, String.valueOf(failure.getMessage()));
        }
    }

    /** What nobody has: neither by our books, nor by the system's, in which workers that are loading are not yet. */
    public long free(PoolDevice device) {
        long byBooks = device.total() - supervisor.allocated(device.id());
        long bySystem = device.free() - supervisor.loading(device.id());
        return Math.max(0, Math.min(byBooks, bySystem));
    }
}
