package dev.starforge.cli.options;

import dev.starforge.text.ErrorMessage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Reads API keys from a file, one per line. */
public final class ApiKeys {
    private ApiKeys() {}

    /**
     * @param setting the option or key that names the file, for error messages
     * @param wrong creates the exception; also used if the file has no key
     */
    public static List<String> read(
            String setting, @Nullable Path file, Function<String, ? extends RuntimeException> wrong) {
        if (file == null) {
            return List.of();
        }
        List<String> keys;
        try {
            keys = Files.readAllLines(file).stream()
                    .map(String::strip)
                    .filter(line -> !line.isEmpty())
                    .toList();
        } catch (IOException failure) {
            throw wrong.apply(setting + ": " + file + " cannot be read: " + ErrorMessage.of(failure));
        }
        if (keys.isEmpty()) {
            throw wrong.apply(setting + ": " + file + " contains no key");
        }
        return keys;
    }
}
