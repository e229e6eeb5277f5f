package dev.starforge.model.layer;

import dev.starforge.model.ModelException;
import dev.starforge.model.Parameter;
import dev.starforge.model.file.PlaneEncoder;
import dev.starforge.model.file.WeightSource;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.MatrixCodec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.IntConsumer;
import java.util.function.LongConsumer;
import java.util.stream.IntStream;

/**
 * Loads tensors of a source to a device in chunks, so that at most one chunk is in host memory. Vectors are float32;
 * {@link #type} decides the type of a matrix. A matrix of the stored type is copied unchanged, others are converted
 * from floats. Returns projections that include the adapter's update, so models contain no LoRA code.
 */
public final class WeightLoader {
    /** Elements per chunk (at least one row). */
    private static final int PIECE = 4 << 20;

    /** Bytes per thread and read. */
    private static final int READ = 1 << 20;

    private final WeightSource source;
    private final Scope scope;
    private final Precision precision;
    private final Adapter adapter;
    private final LongConsumer loaded;
    private ByteBuffer piece = ByteBuffer.allocateDirect(0);
    private float[] values = {};
    private final List<Parameter> parameters = new ArrayList<>();

    public WeightLoader(WeightSource source, Scope scope, Precision precision, Adapter adapter) {
        this(source, scope, precision, adapter, _ -> {});
    }

    /** @param loaded receives the number of elements of each tensor after it is loaded */
    public WeightLoader(WeightSource source, Scope scope, Precision precision, Adapter adapter, LongConsumer loaded) {
        this.loaded = loaded;
        this.source = source;
        this.scope = scope;
        this.precision = precision;
        this.adapter = adapter;
    }

    /** Loads a projection from {@code in} to {@code out} channels, optionally with a bias. */
    public Projection projection(String path, int in, int out, boolean bias) {
        Tensor matrix = matrix(path + ".weight", Shape.of(out, in), w -> List.of(projecting(w)));
        List<Tensor> biases = bias ? List.of(vector(path + ".bias", out)) : List.of();
        return adapter.apply(path, new Projection.Linear(matrix, biases), in, out);
    }

    /** Loads a matrix for row lookups (embedding) that can also be a projection. */
    public Tensor matrix(String name, int rows, int columns) {
        return matrix(name, Shape.of(rows, columns), w -> List.of(projecting(w), gathering(w)));
    }

    private Tensor matrix(String name, Shape shape, Function<Spec, List<WeightUse>> uses) {
        checkShape(name, shape);
        return load(name, type(List.of(name), shape, uses));
    }

    /** Loads the gated experts {@code path}.0, .1, ... with the given names of their three matrices. */
    public ExpertStack experts(String path, int experts, int width, int inner, String gate, String up, String down) {
        return new ExpertStack(
                stack(path, gate, experts, inner, width),
                stack(path, up, experts, inner, width),
                stack(path, down, experts, width, inner),
                adapter.expertUpdates(path, experts, width, 2 * inner, false),
                adapter.expertUpdates(path, experts, inner, width, true));
    }

    private Tensor stack(String path, String name, int experts, int rows, int columns) {
        Shape each = Shape.of(rows, columns);
        List<String> names = IntStream.range(0, experts)
                .mapToObj(e -> path + "." + e + "." + name + ".weight")
                .toList();
        names.forEach(expert -> checkShape(expert, each));
        Tensor stack = scope.allocate(type(
                names,
                Shape.of(experts, rows, columns),
                w -> List.of(new WeightUse(
                        new Routing.ExpertMatMul(true, precision.compute()),
                        new Spec(precision.compute(), Shape.of(1, columns)),
                        w,
                        Spec.i32(experts + 1L)))));
        for (int e = 0; e < experts; e++) {
            fill(names.get(e), stack.view(e * each.size(), each));
            loaded.accept(each.size());
        }
        parameters.add(new Parameter(names, stack));
        return stack;
    }

    public Tensor vector(String name, int size) {
        return load(name, Spec.f32(size));
    }

    /** Returns all loaded parameters in the order of loading. */
    public List<Parameter> parameters() {
        return parameters;
    }

    /** Returns the matrices loaded from below {@code path}: projections, routers and expert stacks. */
    public List<Parameter> matrices(String path) {
        return parameters.stream()
                .filter(each -> each.names().getFirst().startsWith(path + "."))
                .filter(each -> each.tensor().shape().rank() > 1)
                .toList();
    }

    /** Creates the table of rotary frequencies, rounded as the precision of the run requires. */
    Tensor rotary(float... frequencies) {
        float[] rounded = frequencies.clone();
        DType type = precision.rotary();
        for (int i = 0; i < rounded.length && type != DType.F32; i++) {
            rounded[i] = type.widen(type.narrow(rounded[i]));
        }
        return constant(rounded);
    }

    /** Creates a constant that is computed, not stored in the file. */
    Tensor constant(float... values) {
        Tensor tensor = scope.allocate(Spec.f32(values.length));
        scope.device().write(tensor, values);
        return tensor;
    }

    /** An operation that uses a weight, with the types and shapes of its inputs. */
    private record WeightUse(Op op, Spec... in) {}

    private WeightUse projecting(Spec w) {
        DType compute = precision.compute();
        return new WeightUse(
                new Plain.MatMul(false, true, compute),
                new Spec(compute, Shape.of(1, w.shape().last())),
                w);
    }

    private static WeightUse gathering(Spec w) {
        return new WeightUse(new Plain.Gather(), w, Spec.i32(1));
    }

    /**
     * Returns the type of a matrix or a stack of matrices. If weights are kept as stored, it is their common type in
     * the file, provided that the device supports it natively; a 16-bit run converts all float weights to its compute
     * type. Otherwise it is the storage type of the precision, which the device must support; rows that do not divide
     * into its blocks are float32.
     */
    private Spec type(List<String> names, Shape shape, Function<Spec, List<WeightUse>> uses) {
        Set<Optional<DType>> stored = new HashSet<>();
        if (precision.asStored()) {
            names.forEach(name -> stored.add(source.storedType(name)));
        }
        if (stored.size() == 1) {
            Optional<Spec> kept = stored.iterator()
                    .next()
                    .filter(type ->
                            type.isQuantized() || precision.compute() == DType.F32 || precision.compute() == type)
                    .map(type -> new Spec(type, shape))
                    .filter(spec -> uses.apply(spec).stream().allMatch(this::isNative));
            if (kept.isPresent()) {
                return kept.get();
            }
        }
        boolean whole = shape.last() % precision.storage().blockElements() == 0;
        Spec wanted = new Spec(whole ? precision.storage() : DType.F32, shape);
        for (WeightUse use : uses.apply(wanted)) {
            if (!isNative(use)) {
                throw new DeviceException(
                        use.op().name() + ": " + scope.device().name() + " cannot run it with weights " + wanted + " ("
                                + names.getFirst() + ")");
            }
        }
        return wanted;
    }

    private boolean isNative(WeightUse use) {
        return Device.of(scope).supports(use.op(), use.in()) == Support.NATIVE;
    }

    /** Loads a single tensor without a model. */
    public static Tensor load(WeightSource source, String name, Spec wanted, Scope scope) {
        return new WeightLoader(source, scope, Precision.FLOAT32, Adapter.NONE).load(name, wanted);
    }

    private Tensor load(String name, Spec wanted) {
        checkShape(name, wanted.shape());
        Tensor tensor = mapped(name, wanted).orElseGet(() -> copied(name, wanted));
        parameters.add(new Parameter(List.of(name), tensor));
        loaded.accept(tensor.shape().size());
        return tensor;
    }

    private Tensor copied(String name, Spec wanted) {
        Tensor tensor = scope.allocate(wanted);
        fill(name, tensor);
        return tensor;
    }

    /** Memory-maps a matrix from the file if it is stored in the wanted type and the device supports mapped weights. */
    private Optional<Tensor> mapped(String name, Spec wanted) {
        boolean asItIs = wanted.shape().rank() > 1
                && precision.asStored()
                && scope.device().maps(wanted.dtype())
                && source.storedType(name).filter(wanted.dtype()::equals).isPresent();
        return asItIs ? source.region(name).map(region -> scope.map(wanted, region)) : Optional.empty();
    }

    /**
     * Throws if the file has another shape. Called before memory is allocated, so a config cannot cause large
     * allocations.
     */
    private void checkShape(String name, Shape wanted) {
        if (!source.has(name, wanted)) {
            throw new ModelException(
                    source.path(),
                    "tensor " + name + ": the config asks for " + wanted + ", the file has " + source.shape(name));
        }
    }

    private void fill(String name, Tensor tensor) {
        if (!scope.device().holdsValues()) {
            return;
        }
        boolean asItIs = source.storedType(name).filter(tensor.dtype()::equals).isPresent();
        if (tensor.dtype().isPlanar()) {
            fillPlanes(name, tensor, asItIs);
        } else {
            fillRows(name, tensor, asItIs);
        }
    }

    private void fillRows(String name, Tensor tensor, boolean asItIs) {
        DType type = tensor.dtype();
        long width = tensor.shape().last();
        long rows = tensor.shape().rows();
        long rowBytes = type.bytes(width);
        int step = (int) Math.max(1, PIECE / Math.max(1, width));
        for (long row = 0; row < rows; row += step) {
            int now = (int) Math.min(step, rows - row);
            reserve(Math.multiplyExact(now, rowBytes));
            if (asItIs) {
                readRows(name, row, now, type, rowBytes);
            } else {
                convert(name, row * width, Math.toIntExact(now * width), tensor);
            }
            scope.device().write(tensor, row * rowBytes, piece);
        }
    }

    /**
     * Copies the planes of the source, or encodes them in chunks if quantized values depend on their group only, else
     * as a whole.
     */
    private void fillPlanes(String name, Tensor tensor, boolean asItIs) {
        AtomicLong written = new AtomicLong();
        Consumer<ByteBuffer> write = next -> {
            long at = written.getAndAdd(next.remaining());
            scope.device().write(tensor, at, next);
        };
        if (asItIs) {
            source.readPlanes(name, write);
        } else if (PlaneEncoder.stream(tensor.dtype())) {
            PlaneEncoder.encode(source, name, tensor.spec(), write);
        } else {
            reserve(tensor.bytes());
            values = new float[Math.toIntExact(tensor.shape().size())]; // the whole matrix
            convert(name, 0, values.length, tensor);
            write.accept(piece);
        }
    }

    /**
     * Reads a chunk with several threads: copying from the page cache is limited by a single core, not by memory
     * bandwidth.
     */
    private void readRows(String name, long first, int rows, DType type, long rowBytes) {
        int parts = Math.clamp(rows * rowBytes / READ, 1, rows);
        IntConsumer part = i -> {
            int from = (int) ((long) rows * i / parts);
            int to = (int) ((long) rows * (i + 1) / parts);
            ByteBuffer read = piece.slice((int) (from * rowBytes), (int) ((to - from) * rowBytes));
            source.readRows(name, first + from, read);
            try {
                BlockFormat.of(type).requireFiniteScales(read.flip());
            } catch (TensorException wrong) {
                throw new ModelException(
                        source.path(),
                        "tensor " + name + ", rows " + (first + from) + " to " + (first + to - 1) + ": "
                                + wrong.getMessage(),
                        wrong);
            }
        };
        if (parts == 1) {
            part.accept(0);
        } else {
            IntStream.range(0, parts).parallel().forEach(part);
        }
    }

    /** Ensures that the chunk buffer has {@code bytes} bytes. */
    private void reserve(long bytes) {
        if (piece.capacity() < bytes) {
            piece = ByteBuffer.allocateDirect(Math.toIntExact(bytes));
        }
        piece.clear().limit((int) bytes);
    }

    private void convert(String name, long first, int count, Tensor to) {
        if (values.length < count) {
            values = new float[count];
        }
        source.read(name, first, values, count);
        int width = Math.toIntExact(Math.max(1, to.shape().last()));
        try {
            MatrixCodec.of(to.dtype()).encode(values, count / width, width, piece);
        } catch (TensorException wrong) {
            throw new ModelException(
                    source.path(), "tensor " + name + " from element " + first + ": " + wrong.getMessage(), wrong);
        }
    }
}
