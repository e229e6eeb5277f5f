package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * Detects weights stored as Python pickles by file name and refuses them: loading a pickle executes code from the file.
 */
public final class Pickle {
    private static final Pattern NAME =
            Pattern.compile("pytorch_model\\.bin.*|.*\\.(bin|pt|pth|ckpt|pkl|pickle)", Pattern.DOTALL);

    private Pickle() {}

    public static void refuse(Path file) {
        if (isNamedSo(file)) {
            throw refusal(file);
        }
    }

    /** Throws for the first pickle in a folder. */
    static void refuseAnyIn(Path folder) {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, Pickle::isNamedSo)) {
            Optional<Path> first = Optional.empty();
            for (Path file : files) {
                first = Optional.of(first.filter(f -> f.compareTo(file) < 0).orElse(file));
            }
            first.ifPresent(file -> {
                throw refusal(file);
            });
        } catch (IOException failure) {
            throw new ModelException(folder, "cannot be listed: " + failure, failure);
        }
    }

    private static boolean isNamedSo(Path file) {
        Path name = file.getFileName();
        return name != null
                && NAME.matcher(name.toString().toLowerCase(Locale.ROOT)).matches();
    }

    private static ModelException refusal(Path file) {
        return new ModelException(
                file,
                "is a Python pickle, which can run any program when read; expected safetensors or GGUF. Convert it where it"
                        + " is trusted: load it with transformers and call save_pretrained, which writes safetensors");
    }
}
