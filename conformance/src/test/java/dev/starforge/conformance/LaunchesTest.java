package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.kernels.Dispatch;
import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launcher;
import dev.starforge.kernels.Sibling;
import dev.starforge.model.Model;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.kv.PagedKvCache;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Counts the kernel launches of a layer in a GPU decode step, fused and unfused: the table of docs/performance.md. */
final class LaunchesTest {
    /** Records the launches of a GPU and computes on the host. */
    private static final class NotingDevice extends ForwardingDevice implements Launcher {
        private final Scope scratch = new Scope(this);
        private final Dispatch dispatch = new Dispatch(this);
        private final List<String> launched = new ArrayList<>();

        NotingDevice(Device host) {
            super(host);
        }

        @Override
        public Support supports(Op op, Spec... in) {
            return Dispatch.supports(op, in);
        }

        @Override
        public void run(Op op, Tensor[] in, Tensor[] out) {
            dispatch.run(op, in, out);
            super.run(op, in, out);
        }

        @Override
        public void launch(Launch launch) {
            launched.add(launch.variant() + " " + launch.x() + " x " + launch.y() + " x " + launch.z());
        }

        @Override
        public void zero(Tensor tensor) {
            launched.add("zero");
        }

        @Override
        public void copy(Tensor from, Tensor to) {
            launched.add("copy");
        }

        @Override
        public Scope scratch() {
            return scratch;
        }

        @Override
        public Tensor constant(int... values) {
            return scratch.allocate(Spec.i32(values.length));
        }

        @Override
        public boolean supportsClusters() {
            return false;
        }

        @Override
        public int multiprocessors() {
            return 1;
        }

        @Override
        public Set<Sibling> siblings() {
            return Set.of(Sibling.MMA);
        }

        @Override
        public int sharedLimit() {
            return 99 << 10;
        }

        @Override
        public boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
            return false;
        }

        @Override
        public void close() {
            scratch.close();
            super.close();
        }
    }

    /** The launches of the first layer in each of {@code times} runs. */
    private static List<List<String>> launched(String name, Fallback fallback, int times) {
        try (NotingDevice device = new NotingDevice(
                        Selection.choose("cpu").backend().open(new DeviceOptions(0, 1, Path.of("target", "kernels"))));
                Scope weights = new Scope(device);
                Scope step = new Scope(device);
                ModelFiles files = ModelFiles.open(TinyModel.GOLDEN.resolve(name))) {
            Model model = files.load(weights, Precision.FLOAT32);
            PagedKvCache cache = new PagedKvCache(model.info(), 4, DType.F32, weights);
            Batch batch =
                    Batches.cached(model, step, List.of(new Batches.BatchEntry(cache.openSequence(), new int[] {1})));
            EagerOps ops = device.ops(step, Precision.FLOAT32, fallback);
            Tensor x = model.embed(ops, batch);
            List<List<String>> launched = new ArrayList<>();
            for (int i = 0; i < times; i++) {
                device.launched.clear();
                model.blocks().getFirst().forward(ops, x, batch, cache);
                device.dispatch.flush();
                launched.add(List.copyOf(device.launched));
            }
            return launched;
        }
    }

    @ParameterizedTest
    @CsvSource({
        "llama3, 14, 9",
        "qwen2, 17, 9",
        "qwen3, 19, 14",
        "starcoder2, 19, 8",
        "phi, 18, 8",
        "phi3, 16, 14",
    })
    void fusionReducesLaunchesPerLayer(String name, int apart, int fused) {
        Set<Class<? extends Op>> off = Set.of(Layers.Linear.class, Layers.AddLayerNorm.class, Layers.AddRmsNorm.class);
        int before = launched(name, new Fallback(true, off, line -> {}), 1)
                .getFirst()
                .size();
        int after = launched(name, Fallback.FORBIDDEN, 1).getFirst().size();
        System.out.println("launches a layer, " + name + ": " + before + " apart, " + after + " fused");
        assertThat(List.of(before, after)).containsExactly(apart, fused);
    }

    /** There is no autotuning: kernels and grids are the same in every run. */
    @ParameterizedTest
    @ValueSource(strings = {"llama3", "starcoder2", "mixtral"})
    void everyRunLaunchesTheSameKernels(String name) {
        List<List<String>> launched = launched(name, Fallback.FORBIDDEN, 3);
        assertThat(launched.getFirst()).isNotEmpty();
        assertThat(launched).containsOnly(launched.getFirst());
    }
}
