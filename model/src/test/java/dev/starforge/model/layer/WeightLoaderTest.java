package dev.starforge.model.layer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.WeightSource;
import dev.starforge.model.gguf.GgufConfig;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufSource;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.codec.MatrixCodec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which type a weight gets, and that its numbers are the same whichever way it went to the device. */
final class WeightLoaderTest {
    private static final Path GOLDEN = Path.of("..", "golden");
    private static final Precision STORED = Precision.FLOAT32.withWeightsAsStored();

    private final Device device =
            Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("target")));
    private final Scope scope = new Scope(device);

    @AfterEach
    void close() {
        scope.close();
        device.close();
    }

    private float[] floats(Tensor tensor) {
        return device.floats(
                device.ops(scope, Precision.FLOAT32, Fallback.QUIET).run(new Plain.Cast(DType.F32), tensor));
    }

    private static WeightLoader weights(WeightSource source, Scope scope, Precision precision) {
        return new WeightLoader(source, scope, precision, Adapter.NONE);
    }

    /** Queries and keys are among them, whose rows are reordered. */
    @ParameterizedTest
    @ValueSource(
            strings = {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q6_K"})
    void ggufMatricesKeepTheirTypeAndTheirNumbers(String type) {
        Map<String, String> names = Map.of(
                "model.embed_tokens.weight", "token_embd.weight",
                "model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight",
                "model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight",
                "model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight");
        try (GgufFile file = GgufFile.open(GOLDEN.resolve("gguf/micro-" + type + ".gguf"))) {
            GgufSource source = new GgufSource(file, GgufConfig.of(file));
            assertThat(file.string("general.architecture")).isEqualTo("llama");
            names.forEach((name, inFile) -> {
                int rows = (int) source.shape(name).dim(0);
                int columns = (int) source.shape(name).dim(1);
                Tensor kept = weights(source, scope, STORED).matrix(name, rows, columns);
                Tensor converted = weights(source, scope, Precision.FLOAT32).matrix(name, rows, columns);
                assertThat(kept.dtype()).isEqualTo(file.tensor(inFile).format().dtype());
                assertThat(converted.dtype()).isEqualTo(DType.F32);
                assertThat(floats(kept)).as(name).isEqualTo(device.floats(converted));
            });
            assertThat(file.tensor("blk.0.attn_q.weight").format().name()).isEqualTo(type);
        }
    }

    @Test
    void joinedTensorsCannotStayAsTheyAre() {
        try (GgufFile file = GgufFile.open(GOLDEN.resolve("models/deepseek_v3/model.gguf"))) {
            GgufSource source = new GgufSource(file, GgufConfig.of(file));
            String name = "model.layers.0.self_attn.kv_b_proj.weight";
            assertThat(source.storedType(name)).isEmpty();
            int rows = (int) source.shape(name).dim(0);
            int columns = (int) source.shape(name).dim(1);
            assertThat(weights(source, scope, STORED)
                            .matrix(name, rows, columns)
                            .dtype())
                    .isEqualTo(DType.F32);
            assertThat(source.storedType("model.layers.0.self_attn.o_proj.weight"))
                    .isNotEmpty();
        }
    }

    @Test
    void expertsKeepTheirStoredType() {
        try (GgufFile file = GgufFile.open(GOLDEN.resolve("models/qwen3_moe/model.gguf"))) {
            GgufSource source = new GgufSource(file, GgufConfig.of(file));
            Shape each = source.shape("model.layers.0.mlp.experts.1.gate_proj.weight");
            GgufFile.GgufTensorInfo stack = file.tensor("blk.0.ffn_gate_exps.weight");
            ExpertStack experts = weights(source, scope, STORED)
                    .experts(
                            "model.layers.0.mlp.experts",
                            (int) stack.shape().dim(0),
                            (int) each.dim(1),
                            (int) each.dim(0),
                            "gate_proj",
                            "up_proj",
                            "down_proj");
            assertThat(experts.gate().dtype()).isEqualTo(stack.format().dtype());
            assertThat(floats(experts.gate())).isEqualTo(file.readFloats(stack.name()));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"NF4", "Q8_0", "Q4_0", "NF4_DOUBLE", "INT8_128", "GPTQ_32"})
    void storageMayBeQuantized(String name) {
        DType type = DType.valueOf(name);
        Made source = new Made(Shape.of(70, 128), Optional.of(DType.F32), 0.01f);
        Tensor w = weights(source, scope, Precision.FLOAT32.withStorage(type)).matrix("w", 70, 128);
        assertThat(w.spec()).isEqualTo(new Spec(type, Shape.of(70, 128)));
        float[] values = source.values();
        ByteBuffer planes = ByteBuffer.allocate((int) w.bytes());
        MatrixCodec.of(type).encode(values, 70, 128, planes);
        assertThat(floats(w)).isEqualTo(MatrixCodec.of(type).decode(planes, 70, 128));
    }

    @Test
    void rowsThatAreNotWholeBlocksStayFloats() {
        Made source = new Made(Shape.of(5, 96), Optional.empty(), 1);
        Tensor w =
                weights(source, scope, Precision.FLOAT32.withStorage(DType.NF4)).matrix("w", 5, 96);
        assertThat(w.dtype()).isEqualTo(DType.F32);
        assertThat(device.floats(w)).isEqualTo(source.values());
    }

    @Test
    void unsupportedTypesAreConvertedOrRefused() {
        Made source = new Made(Shape.of(5, 64), Optional.of(DType.Q8_0), 1);
        try (Scope narrow = new Scope(new Narrow(device))) {
            assertThat(weights(source, narrow, STORED).matrix("w", 5, 64).dtype())
                    .isEqualTo(DType.F32);
            assertThat(weights(source, narrow, STORED.withStorage(DType.BF16))
                            .matrix("w", 5, 64)
                            .dtype())
                    .isEqualTo(DType.BF16);
            assertThatThrownBy(() -> weights(source, narrow, Precision.FLOAT32.withStorage(DType.Q8_0))
                            .matrix("w", 5, 64))
                    .isInstanceOf(DeviceException.class)
                    .hasMessage("MatMul: narrow cannot run it with weights Q8_0[5, 64] (w)");
        }
    }

    /** Threads share the reading of each piece, and read each row once. */
    @Test
    void largeMatricesAreReadInPiecesBySeveralThreads() {
        Made source = new Made(Shape.of(167, 65_536), Optional.of(DType.Q4_0), 1);
        Tensor w = weights(source, scope, STORED).matrix("w", 167, 65_536);
        assertThat(source.pieces)
                .containsExactlyInAnyOrder("0..32", "32..64", "64..96", "96..128", "128..167")
                .last()
                .isEqualTo("128..167");
        ByteBuffer stored = ByteBuffer.allocate((int) w.bytes());
        source.readRows("w", 0, stored);
        ByteBuffer loaded = ByteBuffer.allocate((int) w.bytes());
        device.read(w, loaded);
        assertThat(loaded.rewind()).isEqualTo(stored.rewind());
    }

    @Test
    void tensorsThatCannotBeQuantizedAreNamed() {
        Made source = new Made(Shape.of(2, 32), Optional.of(DType.F32), Float.NaN);
        assertThatThrownBy(() -> weights(source, scope, Precision.FLOAT32.withStorage(DType.Q8_0))
                        .matrix("w", 2, 32))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("tensor w from element 0: encode Q8_0");
    }

    /** One tensor whose elements are multiples of a number, from nowhere. */
    private static final class Made implements WeightSource {
        private final Shape shape;
        private final Optional<DType> stored;
        private final float step;
        private final List<String> pieces = Collections.synchronizedList(new ArrayList<>());

        Made(Shape shape, Optional<DType> stored, float step) {
            this.shape = shape;
            this.stored = stored;
            this.step = step;
        }

        float[] values() {
            float[] values = new float[(int) shape.size()];
            read("w", 0, values, values.length);
            return values;
        }

        @Override
        public Path path() {
            return Path.of("made");
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
            return stored;
        }

        @Override
        public void readRows(String name, long first, ByteBuffer into) {
            long row = stored.orElseThrow().bytes(shape.last());
            pieces.add(first + ".." + (first + into.remaining() / row));
            into.position(into.limit());
        }

        @Override
        public void read(String name, long first, float[] out, int count) {
            for (int i = 0; i < count; i++) {
                out[i] = step * ((first + i) * 37 % 101 - 50);
            }
        }
    }

    /** The reference without quantized weights. */
    private static final class Narrow extends ForwardingDevice {
        Narrow(Device device) {
            super(device);
        }

        @Override
        public String name() {
            return "narrow";
        }

        @Override
        public Support supports(Op op, Spec... in) {
            return Arrays.stream(in).anyMatch(spec -> spec.dtype().isQuantized()) ? Support.NONE : Support.NATIVE;
        }

        @Override
        public void close() {} // the device behind is the test's own
    }
}
