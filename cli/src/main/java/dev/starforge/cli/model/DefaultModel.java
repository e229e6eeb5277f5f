package dev.starforge.cli.model;

import dev.starforge.cli.output.Escaped;
import dev.starforge.train.tune.TuneState;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The model of a command without a MODEL: the one tuned on the enclosing repository, otherwise the embedded one. */
public final class DefaultModel {
    /** Output folder of {@code tune} in the repository. */
    public static final String FOLDER = ".starforge";

    private DefaultModel() {}

    /** Returns the given name, or the default model, which it prints to {@code err}. */
    public static String of(@Nullable String given, Path here, PrintWriter err) {
        if (given != null) {
            return given;
        }
        Optional<Path> tuned = Stream.iterate(here.toAbsolutePath().normalize(), each -> each != null, Path::getParent)
                .flatMap(folder -> TuneState.modelOf(folder.resolve(FOLDER)).stream())
                .findFirst();
        err.println(
                tuned.isPresent()
                        ? "model: " + Escaped.of(tuned.get()) + " (tuned on this repository)"
                        : EmbeddedModel.NOTE);
        err.flush();
        return tuned.map(Path::toString).orElse(EmbeddedModel.NAME);
    }
}
