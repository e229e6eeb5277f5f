package dev.starforge.conformance.emulator;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Dispatch;
import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launch.Argument;
import dev.starforge.kernels.Launcher;
import dev.starforge.kernels.Sibling;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/**
 * An emulated GPU: the {@link Emulator} runs the kernels' source with the same dispatch. A launch fails if its arguments do not
 * have the types of the kernel's parameters, or if the kernel uses a different size of shared memory than {@code Kernel} states.
 */
final class EmulatedDevice implements Device, Launcher {
    private static final long SLOT = 2 * ADDRESS.byteSize();

    private final Emulator emulator;
    private final boolean reversed;
    private final GpuModel model;
    private final UnaryOperator<String> edit;
    private final Consumer<Variant> launched;
    private final Dispatch dispatch = new Dispatch(this);
    private final EmulatedMemory workspace = EmulatedMemory.of(Dispatch.WORKSPACE);
    private final Scope scratch = new Scope(this);
    private final Scope constants = new Scope(this);
    private final Map<Variant, Emulator.Program> programs = new HashMap<>();

    /**
     * @param reversed whether groups and threads run in reverse order, which changes results that depend on the order
     * @param model its capabilities
     * @param edit applied to a kernel's source before it is compiled
     * @param launched receives the variant of every launch
     */
    EmulatedDevice(
            Emulator emulator,
            boolean reversed,
            GpuModel model,
            UnaryOperator<String> edit,
            Consumer<Variant> launched) {
        this.emulator = emulator;
        this.reversed = reversed;
        this.model = model;
        this.edit = edit;
        this.launched = launched;
    }

    @Override
    public String name() {
        return "emulator";
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return Dispatch.workspace(model.siblings(), op, in);
    }

    @Override
    public long workspaceBytes() {
        return Dispatch.WORKSPACE + scratch.reservedBytes();
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        dispatch.run(op, in, out);
    }

    @Override
    public void launch(Launch launch) {
        launched.accept(launch.variant());
        Emulator.Program program =
                programs.computeIfAbsent(launch.variant(), variant -> emulator.compile(variant, edit));
        requireKinds(launch, program.kinds());
        requireDistinct(launch);
        try (Arena arena = Arena.ofConfined()) {
            List<Argument> arguments = launch.arguments();
            MemorySegment slots = arena.allocate(SLOT * Emulator.MAX_ARGUMENTS, ADDRESS.byteAlignment());
            for (int i = 0; i < arguments.size(); i++) {
                MemorySegment value = value(arguments.get(i), arena);
                slots.set(ADDRESS, SLOT * i, value);
                slots.set(JAVA_LONG, SLOT * i + ADDRESS.byteSize(), value.byteSize());
            }
            long shared = emulator.run(program, slots, arguments.size(), launch, reversed);
            int declared = launch.variant().kernel().sharedBytes(program.sharedLimit());
            if (shared != declared) {
                throw new DeviceException(
                        launch.variant() + ": declares " + shared + " bytes of shared memory, Kernel has " + declared);
            }
        }
    }

    private static void requireKinds(Launch launch, String kinds) {
        StringBuilder given = new StringBuilder();
        for (Argument argument : launch.arguments()) {
            boolean bytes = given.length() < kinds.length() && kinds.charAt(given.length()) == 'c';
            given.append(bytes ? 'c' : kind(argument));
        }
        if (!given.toString().equals(kinds)) {
            throw new DeviceException(
                    launch.variant() + ": has parameters of types " + kinds + ", the launch has " + given);
        }
    }

    /** What a kernel writes overlaps no other argument, but may be an input: see {@link Launch}. */
    private static void requireDistinct(Launch launch) {
        List<Boolean> written = MetalParameters.written(launch.variant());
        List<Argument> arguments = launch.arguments();
        for (int i = 0; i < arguments.size(); i++) {
            for (int j = i + 1; j < arguments.size(); j++) {
                if (arguments.get(i) instanceof Argument.Buffer a
                        && arguments.get(j) instanceof Argument.Buffer b
                        && (written.get(i) || written.get(j))) {
                    MemorySegment first = EmulatedMemory.segment(a.tensor());
                    MemorySegment second = EmulatedMemory.segment(b.tensor());
                    boolean inPlace = first.equals(second) && !written.get(i).equals(written.get(j));
                    if (!inPlace && first.asOverlappingSlice(second).isPresent()) {
                        throw new DeviceException(launch.variant() + ": argument " + i + ", " + a.tensor()
                                + ", overlaps argument " + j + ", " + b.tensor() + ", and one of them is written");
                    }
                }
            }
        }
    }

    /** The letter of a parameter type in the host prelude. */
    private static char kind(Argument argument) {
        return switch (argument) {
            case Argument.Buffer buffer -> kind(buffer.tensor().dtype());
            case Argument.Absent none -> kind(none.dtype());
            case Argument.Workspace all -> 'w';
            case Argument.Int number -> 'I';
            case Argument.Long number -> 'L';
            case Argument.Float number -> 'F';
            case Argument.Struct struct -> 'S';
        };
    }

    private static char kind(DType type) {
        return switch (type) {
            case F32 -> 'f';
            case F16 -> 'h';
            case BF16 -> 'b';
            case I32 -> 'i';
            case I8 -> 's';
            default -> throw new DeviceException("emulator: " + type + " has no kernel");
        };
    }

    private MemorySegment value(Argument argument, Arena arena) {
        return switch (argument) {
            case Argument.Buffer buffer -> EmulatedMemory.segment(buffer.tensor());
            case Argument.Absent none -> workspace.segment().asSlice(0, 0);
            case Argument.Workspace all -> workspace.segment();
            case Argument.Int number -> arena.allocateFrom(JAVA_INT, number.value());
            case Argument.Long number -> arena.allocateFrom(JAVA_LONG, number.value());
            case Argument.Float number -> arena.allocateFrom(JAVA_FLOAT, number.value());
            case Argument.Struct struct ->
                arena.allocateFrom(
                        JAVA_LONG,
                        struct.values().stream().mapToLong(Long::longValue).toArray());
        };
    }

    @Override
    public void zero(Tensor tensor) {
        EmulatedMemory.segment(tensor).fill((byte) 0);
    }

    @Override
    public void copy(Tensor from, Tensor to) {
        EmulatedMemory.segment(to).copyFrom(EmulatedMemory.segment(from));
    }

    @Override
    public Scope scratch() {
        return scratch;
    }

    @Override
    public Tensor constant(int... values) {
        Tensor tensor = constants.allocate(Spec.i32(values.length));
        write(tensor, values);
        return tensor;
    }

    @Override
    public boolean supportsClusters() {
        return false;
    }

    @Override
    public int multiprocessors() {
        return model.multiprocessors();
    }

    @Override
    public Set<Sibling> siblings() {
        return model.siblings();
    }

    @Override
    public int sharedLimit() {
        return model.sharedLimit();
    }

    @Override
    public boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        return false;
    }

    @Override
    public Memory reserve(long bytes) {
        return EmulatedMemory.of(bytes);
    }

    @Override
    public void release(Memory memory) {
        dispatch.flush();
        ((EmulatedMemory) memory).arena().close();
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        dispatch.flush();
        MemorySegment source = MemorySegment.ofBuffer(from);
        if (source.byteSize() > to.bytes()) {
            throw new ShapeException("write: " + source.byteSize() + " bytes to tensor " + to);
        }
        EmulatedMemory.segment(to).copyFrom(source);
        if (Dispatch.hasWeightTiles(to.spec())) {
            dispatch.pack(to);
        }
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        dispatch.flush();
        MemorySegment target = MemorySegment.ofBuffer(to);
        if (target.byteSize() < from.bytes()) {
            throw new ShapeException("read: tensor " + from + " into " + target.byteSize() + " bytes");
        }
        if (!Dispatch.hasWeightTiles(from.spec())) {
            target.copyFrom(EmulatedMemory.segment(from));
            return;
        }
        dispatch.unpack(from, scratch, (file, at) -> target.asSlice(at).copyFrom(EmulatedMemory.segment(file)));
    }

    @Override
    public void close() {
        dispatch.flush();
        scratch.close();
        constants.close();
        workspace.arena().close();
    }
}
