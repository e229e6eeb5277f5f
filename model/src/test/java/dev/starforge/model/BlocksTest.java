package dev.starforge.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Ops;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The blocks of every golden architecture, run one by one by a caller that is not the model. */
final class BlocksTest {
    private static final Path GOLDEN = Path.of("..", "golden", "models");
    private static final Pattern IN_A_BLOCK = Pattern.compile("model\\.layers\\.(\\d+)\\..*");

    static List<String> models() throws IOException {
        try (Stream<Path> folders = Files.list(GOLDEN)) {
            return folders.filter(folder -> Files.exists(folder.resolve("config.json")))
                    .map(folder -> folder.getFileName().toString())
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("models")
    void embeddingBlocksAndHeadAreTheWholeForwardBitForBit(String name) {
        try (Device device = reference();
                Scope weights = new Scope(device);
                Scope step = new Scope(device);
                ModelFiles files = ModelFiles.open(GOLDEN.resolve(name))) {
            Model model = files.load(weights, Precision.FLOAT32);
            Ops ops = device.ops(step, Precision.FLOAT32, Fallback.QUIET);
            int[] ids = IntStream.range(0, 13)
                    .map(i -> 7 * i % model.info().vocabSize())
                    .toArray();
            Batch batch = Batches.packed(model, step, List.of(ids, new int[] {3, 1, 2}));

            Tensor x = model.embed(ops, batch);
            for (Model.Block block : model.blocks()) {
                x = block.forward(ops, x, batch, KvCache.NONE);
            }
            Tensor logits = model.logits(ops, model.finalNorm(ops, batch.wanted(ops, x)));

            assertThat(model.blocks()).hasSize(model.info().layers());
            assertThat(device.floats(logits)).isEqualTo(device.floats(model.forward(ops, batch, KvCache.NONE)));
        }
    }

    @ParameterizedTest
    @MethodSource("models")
    void aBlockNamesTheMatricesOfItsLayerAndNoOthers(String name) {
        try (Device device = reference();
                Scope weights = new Scope(device);
                ModelFiles files = ModelFiles.open(GOLDEN.resolve(name))) {
            Model model = files.load(weights, Precision.FLOAT32);
            for (int layer = 0; layer < model.blocks().size(); layer++) {
                String number = "" + layer;
                TreeSet<String> inFile = files.tensors().stream()
                        .filter(stored -> stored.shape().rank() > 1)
                        .map(ModelFiles.TensorInfo::name)
                        .filter(stored ->
                                IN_A_BLOCK.matcher(stored).replaceFirst("$1").equals(number))
                        .collect(Collectors.toCollection(TreeSet::new));
                TreeSet<String> inBlock = model.blocks().get(layer).matrices().stream()
                        .flatMap(matrix -> matrix.names().stream())
                        .collect(Collectors.toCollection(TreeSet::new));
                assertThat(inBlock).isEqualTo(inFile).isNotEmpty();
            }
        }
    }

    private static Device reference() {
        return Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("target")));
    }
}
