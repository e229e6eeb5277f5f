package dev.starforge.conformance;

import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** An adapter of drawn numbers up to a bound, A and B, for a golden model. */
final class RandomAdapter {
    private RandomAdapter() {}

    static Path write(Path to, Path golden, Device device, long seed, float bound, LoraConfig settings)
            throws IOException {
        Files.createDirectories(to);
        try (Scope scope = new Scope(device);
                ModelFiles files = ModelFiles.open(golden);
                LoraAdapter adapter = LoraAdapter.create(settings, seed, scope)) {
            files.load(scope, Precision.FLOAT32, adapter);
            int[] site = {0};
            adapter.parameters().forEach((name, tensor) -> {
                float[] values = new float[Math.toIntExact(tensor.shape().size())];
                for (int i = 0; i < values.length; i++) {
                    values[i] = bound * (2 * Philox.uniform(seed, site[0], i) - 1);
                }
                site[0]++;
                device.write(tensor, values);
            });
            LoraAdapter.save(to, settings, "base", Quantization.NONE, adapter.parameters(), device);
        }
        return to;
    }
}
