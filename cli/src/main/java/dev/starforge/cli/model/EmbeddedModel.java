package dev.starforge.cli.model;

import dev.starforge.model.ModelException;
import dev.starforge.text.ErrorMessage;
import dev.starforge.text.file.Hashes;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * The base model embedded in the program. Weights are mapped from a file, so it is unpacked once to a file whose name contains
 * its hash; each version of the program has its own file.
 */
public final class EmbeddedModel {
    public static final String NAME = "nano";

    public static final String NOTE = "model: nano (embedded, 22 M parameters); pass another model for better results";

    private static final String RESOURCE = "/dev/starforge/cli/nano.gguf";
    private static final int DIGITS = 12;

    private EmbeddedModel() {}

    /** Returns the unpacked file. */
    static Path file() {
        return file(Environment.system().home());
    }

    public static Path file(Path home) {
        try (InputStream in = EmbeddedModel.class.getResourceAsStream(RESOURCE)) {
            if (in == null) {
                throw new ModelException(Path.of(NAME), "this build has no embedded model; pass a model");
            }
            byte[] bytes = in.readAllBytes();
            Path folder = home.resolve("embedded");
            Path file = folder.resolve(NAME + "-" + Hashes.sha256(bytes).substring(0, DIGITS) + ".gguf");
            if (!Files.isRegularFile(file)) {
                Files.createDirectories(folder);
                Path partial = Files.createTempFile(folder, NAME, ".partial");
                Files.write(partial, bytes);
                Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE);
            }
            return file;
        } catch (IOException failure) {
            throw new ModelException(home, "cannot unpack " + NAME + ": " + ErrorMessage.of(failure), failure);
        }
    }
}
