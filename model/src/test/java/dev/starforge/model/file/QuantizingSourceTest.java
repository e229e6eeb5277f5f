package dev.starforge.model.file;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.model.layer.Adapter;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.codec.Int8Groups;
import dev.starforge.tensor.codec.Nf4;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Plain;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntConsumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A quantized base has the numbers of its format however it is read, and is never there whole. */
final class QuantizingSourceTest {
    private static final Path GOLDEN = Path.of("..", "golden");
    private static final String NAME = "model.layers.3.mlp.c_fc.weight";

    private final Device device =
            Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("target")));
    private final Scope scope = new Scope(device);

    @AfterEach
    void close() {
        scope.close();
        device.close();
    }

    /** What the codecs make of the whole matrix at once. */
    private static float[] expected(float[] w, Shape shape, Quantization quantization) {
        return switch (quantization) {
            case Quantization.None none -> w;
            case Quantization.Nf4(boolean doubled) -> (doubled ? Nf4.encodeDouble(w, 64) : Nf4.encode(w, 64)).decode();
            case Quantization.Int8(int group) ->
                Int8Groups.encode(w, (int) shape.dim(0), (int) shape.dim(1), group)
                        .decode();
        };
    }

    @ParameterizedTest
    @CsvSource({
        "70, 128, nf4, NF4",
        "70, 128, nf4-double, NF4_DOUBLE",
        "300, 64, nf4-double, NF4_DOUBLE",
        "5, 112, nf4, F32",
        "130, 112, nf4-double, F32",
        "33, 40, nf4-double, F32",
        "3, 1, nf4-double, F32",
        "33, 40000, nf4-double, NF4_DOUBLE",
        "70, 128, int8-128, INT8_128",
        "33, 40064, int8-128, INT8_128",
        "70, 128, int8-32, Q8_0",
        "7, 96, int8-64, Q8_0",
        "9, 96, int8-128, Q8_0",
        "70, 256, int8-256, Q8_0",
        "9, 112, int8-128, F32",
        "9, 40, int8-32, F32"
    })
    void valuesAreThoseOfTheFormat(int rows, int columns, String text, String stored) {
        Quantization quantization = Quantization.parse(text);
        assertThat(quantization).hasToString(text);
        Shape shape = Shape.of(rows, columns);
        Drawn drawn = new Drawn(shape);
        float[] wanted = expected(drawn.values(), shape, quantization);
        QuantizingSource source = new QuantizingSource(drawn, quantization);

        for (int step : List.of(rows, 1, 7)) {
            float[] read = new float[rows * columns];
            for (int row = 0; row < rows; row += step) {
                int count = Math.min(step, rows - row) * columns;
                float[] piece = new float[count];
                source.read(NAME, (long) row * columns, piece, count);
                System.arraycopy(piece, 0, read, row * columns, count);
            }
            assertThat(read).as("read %d rows at a time", step).isEqualTo(wanted);
        }

        Precision precision = Precision.FLOAT32.withStorage(DType.BF16).withWeightsAsStored();
        Tensor w = new WeightLoader(source, scope, precision, Adapter.NONE).matrix(NAME, rows, columns);
        assertThat(w.dtype()).isEqualTo(DType.valueOf(stored));
        assertThat(device.floats(
                        device.ops(scope, Precision.FLOAT32, Fallback.QUIET).run(new Plain.Cast(DType.F32), w)))
                .isEqualTo(wanted);
        Tensor decoded = new WeightLoader(source, scope, Precision.FLOAT32, Adapter.NONE).matrix(NAME, rows, columns);
        assertThat(device.floats(decoded)).isEqualTo(wanted);
    }

    @Test
    void doubleQuantizationRoundsTheMagnitudes() {
        Shape shape = Shape.of(40, 128);
        float[] plain = new float[40 * 128];
        float[] doubled = plain.clone();
        new QuantizingSource(new Drawn(shape), new Quantization.Nf4(false)).read(NAME, 0, plain, plain.length);
        new QuantizingSource(new Drawn(shape), new Quantization.Nf4(true)).read(NAME, 0, doubled, plain.length);
        assertThat(doubled).isNotEqualTo(plain);
        for (int i = 0; i < plain.length; i++) {
            assertThat(Math.abs(doubled[i] - plain[i])).isLessThanOrEqualTo(0.05f * Math.abs(plain[i]));
        }
    }

    @Test
    void theMatricesOfTheBlocksAreQuantizedAndNothingElse() throws IOException {
        TreeSet<String> kept = new TreeSet<>();
        TreeSet<String> quantized = new TreeSet<>();
        try (Stream<Path> models = Files.list(GOLDEN.resolve("models"))) {
            for (Path model : models.toList()) {
                try (ModelFiles files = ModelFiles.open(model)) {
                    WeightSource source =
                            files.quantized(new Quantization.Nf4(true)).weights();
                    for (ModelFiles.TensorInfo tensor : files.tensors()) {
                        if (tensor.shape().rank() == 2) {
                            (source.changesValues(tensor.name()) ? quantized : kept)
                                    .add(tensor.name()
                                            .replaceAll("\\.\\d+\\.", ".N.")
                                            .replaceAll(".*N\\.", ""));
                        } else {
                            assertThat(source.changesValues(tensor.name())).isFalse();
                        }
                    }
                }
            }
        }
        assertThat(kept)
                .containsExactlyInAnyOrder(
                        "lm_head.weight",
                        "model.embed_tokens.weight",
                        "mlp.gate.weight",
                        "block_sparse_moe.gate.weight",
                        "mlp.shared_expert_gate.weight");
        assertThat(quantized)
                .contains(
                        "self_attn.qkv_proj.weight",
                        "mlp.gate_up_proj.weight",
                        "self_attn.kv_b_proj.weight",
                        "gate_proj.weight",
                        "w2.weight",
                        "mlp.shared_expert.down_proj.weight");
    }

    @ParameterizedTest
    @ValueSource(strings = {"Q4_0", "Q4_K", "Q8_0", "F16"})
    void tensorsWithAsFewBitsInTheFileAreUnchanged(String type) {
        try (ModelFiles files = ModelFiles.open(GOLDEN.resolve("gguf/micro-" + type + ".gguf"))) {
            WeightSource base = files.quantized(new Quantization.Nf4(true)).weights();
            String name = "model.layers.0.self_attn.q_proj.weight";
            boolean block = type.startsWith("Q4");
            assertThat(base.changesValues(name)).isEqualTo(!block);
            assertThat(base.storedType(name)).contains(block ? DType.valueOf(type) : DType.NF4_DOUBLE);
            assertThat(files.spec().quantized().contains(DType.valueOf(type)))
                    .isEqualTo(DType.valueOf(type).isQuantized());
            int size = (int) base.shape(name).size();
            float[] stored = new float[size];
            float[] ours = new float[size];
            files.weights().read(name, 0, stored, size);
            base.read(name, 0, ours, size);
            assertThat(Arrays.equals(ours, stored)).isEqualTo(block);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"nf4", "nf4-double", "int8-64"})
    void tensorsThatCannotBeQuantizedAreNamed(String quantization) {
        Drawn drawn = new Drawn(Shape.of(40, 64));
        drawn.wrongAt = 33 * 64;
        QuantizingSource source = new QuantizingSource(drawn, Quantization.parse(quantization));
        assertThatThrownBy(() -> new WeightLoader(source, scope, Precision.FLOAT32, Adapter.NONE).matrix(NAME, 40, 64))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("drawn")
                .hasMessageContaining("tensor " + NAME + " from row ")
                .hasMessageContaining("NaN");
    }

    @Test
    void aGroupIsWholeBlocks() {
        assertThatThrownBy(() -> new Quantization.Int8(48))
                .isInstanceOf(ShapeException.class)
                .hasMessage("int8 groups: expected a multiple of 32, got 48");
        assertThatThrownBy(() -> Quantization.parse("nf5"))
                .isInstanceOf(ShapeException.class)
                .hasMessageContaining("got nf5");
    }

    /** 128 MB as float32; what lives on the heap while it is read is counted at every eighth piece. */
    @ParameterizedTest
    @CsvSource({"nf4-double, NF4_DOUBLE", "int8-128, INT8_128", "none, INT8_128"})
    void aWholeMatrixIsNeverInMemory(String quantization, DType type) {
        Shape shape = Shape.of(16_384, 2048);
        Drawn drawn = new Drawn(shape);
        drawn.period = 1 << 16;
        AtomicLong most = new AtomicLong();
        AtomicLong reads = new AtomicLong();
        long before = live();
        drawn.onRead = count -> {
            assertThat(count).isLessThanOrEqualTo(4 << 20);
            if (reads.getAndIncrement() % 8 == 0) {
                most.accumulateAndGet(live() - before, Math::max);
            }
        };
        boolean converts = quantization.equals("none");
        Precision precision = converts ? Precision.FLOAT32.withStorage(type) : Precision.FLOAT32.withWeightsAsStored();
        Tensor w = new WeightLoader(
                        new QuantizingSource(drawn, Quantization.parse(quantization)), scope, precision, Adapter.NONE)
                .matrix(NAME, (int) shape.dim(0), (int) shape.dim(1));
        assertThat(w.dtype()).isEqualTo(type);
        assertThat(reads.get()).isGreaterThan(16);
        assertThat(most.get()).isLessThan(Float.BYTES * shape.size() / 3);
    }

    private static long live() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /** One matrix of normal numbers, the scales of whose rows differ. */
    private static final class Drawn implements WeightSource {
        private final Shape shape;
        private long wrongAt = -1;
        private long period = Long.MAX_VALUE;
        private float[] repeated = {};
        private IntConsumer onRead = count -> {};

        Drawn(Shape shape) {
            this.shape = shape;
        }

        float[] values() {
            float[] values = new float[(int) shape.size()];
            read(NAME, 0, values, values.length);
            return values;
        }

        @Override
        public Path path() {
            return Path.of("drawn");
        }

        @Override
        public Shape shape(String name) {
            return shape;
        }

        @Override
        public Optional<FileRegion> region(String name) {
            return Optional.empty();
        }

        @Override
        public Optional<DType> storedType(String name) {
            return Optional.of(DType.BF16);
        }

        @Override
        public void readRows(String name, long first, ByteBuffer into) {
            throw new ModelException(path(), "only floats are to be had");
        }

        @Override
        public void read(String name, long first, float[] out, int count) {
            onRead.accept(count);
            if (period < Long.MAX_VALUE && repeated.length == 0) {
                repeated = new float[(int) period];
                for (int i = 0; i < period; i++) {
                    repeated[i] = value(i);
                }
            }
            for (int i = 0; i < count; i++) {
                out[i] = repeated.length > 0 ? repeated[(int) ((first + i) % period)] : value(first + i);
            }
        }

        private float value(long i) {
            return i == wrongAt
                    ? Float.NaN
                    : (1 + i / shape.last() % 5) * 0.02f * Philox.normal(1, (int) (i >>> 32), (int) i);
        }
    }
}
