package dev.starforge.metal;

import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launch.Argument;
import dev.starforge.kernels.Launcher;
import dev.starforge.kernels.Sibling;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Plain;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Set;

/** Binds the arguments of launches and hands them to the command stream, or to a recording of a step. */
final class MetalLauncher implements Launcher {
    private static final String WORD = "u32";
    private static final long WORD_BYTES = 4;
    private static final int SHARED_LIMIT = 32 << 10;

    private final Device device;
    private final MetalChip chip;
    private final KernelLibraries kernels;
    private final CommandStream stream;
    private final MetalMemory workspace;
    private final Scope scratch;
    private final Scope constants;
    private LaunchSink sink;

    MetalLauncher(Device device, MetalChip chip, KernelLibraries kernels, CommandStream stream, MetalMemory workspace) {
        this.device = device;
        this.chip = chip;
        this.kernels = kernels;
        this.stream = stream;
        this.workspace = workspace;
        scratch = new Scope(device);
        constants = new Scope(device);
        sink = stream;
    }

    /** Sends launches to a recording instead of the GPU, until {@link #endRecording}. */
    void record(Recording recording) {
        sink = recording;
    }

    void endRecording() {
        sink = stream;
    }

    @Override
    public void launch(Launch launch) {
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            sink.add(bind(launch));
        }
    }

    private EncodedLaunch bind(Launch launch) {
        List<Argument> arguments = launch.arguments();
        int count = arguments.size();
        if (count > EncodedLaunch.MAX_BUFFERS) {
            throw new DeviceException(
                    launch.variant() + ": " + count + " arguments, Metal has at most " + EncodedLaunch.MAX_BUFFERS);
        }
        MemorySegment pipeline = kernels.pipeline(launch.variant());
        ScalarBuffer scalars = sink.scalars(ScalarBuffer.bytes(arguments));
        Binding binding = new Binding(count);
        for (int i = 0; i < count; i++) {
            switch (arguments.get(i)) {
                case Argument.Buffer buffer ->
                    binding.bytes(
                            i,
                            MetalMemory.of(buffer.tensor()),
                            buffer.tensor().offset(),
                            buffer.tensor().bytes(),
                            launch.writes(i));
                case Argument.Absent _ -> binding.unused(i, workspace);
                case Argument.Workspace _ -> binding.bytes(i, workspace, 0, workspace.bytes(), launch.writes(i));
                case Argument.Int _, Argument.Long _, Argument.Float _, Argument.Struct _ ->
                    binding.scalar(i, scalars.memory(), scalars.put(arguments.get(i)));
            }
        }
        return binding.encode(sink.allocator(), pipeline, launch.threads(), launch.x(), launch.y(), launch.z());
    }

    @Override
    public void zero(Tensor tensor) {
        if (tensor.bytes() > 0) {
            String type = elementType(tensor.offset(), tensor.bytes());
            Binding binding = new Binding(2).bytes(0, MetalMemory.of(tensor), tensor.offset(), tensor.bytes(), true);
            launch("ClearElements", type, tensor.bytes(), binding, 1);
        }
    }

    @Override
    public void copy(Tensor from, Tensor to) {
        copy(MetalMemory.of(from), from.offset(), MetalMemory.of(to), to.offset(), from.bytes());
    }

    /** Copies bytes between two places that do not overlap. */
    void copy(MetalMemory from, long fromOffset, MetalMemory to, long toOffset, long bytes) {
        if (bytes > 0) {
            Binding binding =
                    new Binding(3).bytes(0, from, fromOffset, bytes, false).bytes(1, to, toOffset, bytes, true);
            launch("CopyElements", elementType(fromOffset, toOffset, bytes), bytes, binding, 2);
        }
    }

    /** Launches a kernel of memory.kernel, whose last argument is the number of elements. */
    private void launch(String symbol, String type, long bytes, Binding binding, int last) {
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            MemorySegment pipeline = kernels.memoryPipeline(type, symbol);
            long elements = type.equals(WORD) ? bytes / WORD_BYTES : bytes;
            Argument count = new Argument.Long(elements);
            ScalarBuffer scalars = sink.scalars(ScalarBuffer.bytes(List.of(count)));
            binding.scalar(last, scalars.memory(), scalars.put(count));
            long groups = Math.ceilDiv(elements, (long) Launch.GROUP);
            sink.add(binding.encode(sink.allocator(), pipeline, Launch.GROUP, groups, 1, 1));
        }
    }

    /** Words if all offsets and sizes allow it, bytes otherwise. */
    private static String elementType(long... multiples) {
        for (long each : multiples) {
            if (each % WORD_BYTES != 0) {
                return "i8";
            }
        }
        return WORD;
    }

    @Override
    public Scope scratch() {
        return scratch;
    }

    @Override
    public Tensor constant(int... numbers) {
        Tensor tensor = constants.allocate(Spec.i32(numbers.length));
        device.write(tensor, numbers);
        return tensor;
    }

    @Override
    public int multiprocessors() {
        return chip.cores();
    }

    @Override
    public boolean supportsClusters() {
        return false;
    }

    /** The portable kernels only. */
    @Override
    public Set<Sibling> siblings() {
        return Set.of();
    }

    /** That of the prelude, which every device has. */
    @Override
    public int sharedLimit() {
        return SHARED_LIMIT;
    }

    /** Metal Performance Shaders are no library for this: their products round in ways that are not documented. */
    @Override
    public boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        return false;
    }
}
