package dev.starforge.train.quantize;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.convert.ImportanceCollector;
import dev.starforge.model.convert.ImportanceMatrix;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import java.nio.file.Path;
import java.util.List;
import java.util.function.IntConsumer;

/** Runs a model over calibration text and collects its importance matrix. */
public final class Calibration {
    private Calibration() {}

    /**
     * Returns the importance matrix.
     *
     * @param progress receives the number of sequences that are done
     */
    public static ImportanceMatrix collect(
            Path model, CalibrationText text, Device device, Precision precision, IntConsumer progress) {
        try (ModelFiles files = ModelFiles.open(model);
                Scope weights = new Scope(device)) {
            Model loaded = files.load(weights, precision);
            ImportanceCollector collector = new ImportanceCollector(device, loaded);
            int done = 0;
            for (int[] chunk : text.chunks()) {
                try (Scope step = new Scope(device)) {
                    loaded.hiddenStates(
                            collector.observe(device.ops(step, precision, Fallback.QUIET)),
                            Batches.packed(loaded, step, List.of(chunk)),
                            KvCache.NONE);
                }
                progress.accept(++done);
            }
            return new ImportanceMatrix(
                    collector.entries(), List.of(text.source().toString()), done, CalibrationText.CHUNK);
        }
    }
}
