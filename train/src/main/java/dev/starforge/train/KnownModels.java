package dev.starforge.train;

import dev.starforge.model.load.ModelSpec;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;

/** Configs of models that can be planned before they are downloaded. */
public final class KnownModels {
    private static final Map<String, String> RESOURCES = Map.of("bigcode/starcoder2-3b", "starcoder2-3b.json");

    private KnownModels() {}

    public static Optional<ModelSpec> find(String name) {
        String resource = RESOURCES.get(name);
        if (resource == null) {
            return Optional.empty();
        }
        try (InputStream in = KnownModels.class.getResourceAsStream(resource)) {
            return Optional.of(ModelSpec.of(name, new String(in.readAllBytes(), StandardCharsets.UTF_8)));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
