package dev.starforge.cli.model;

import dev.starforge.cli.output.Escaped;
import dev.starforge.train.tune.TuneState;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Which model is meant where none is named: the one that was tuned on the repository around here, else the one that ships. */
public final class DefaultModel {
    /** Where {@code tune} writes, in the repository that it reads. */
    public static final String FOLDER = ".starforge";

    private DefaultModel() {}

    /** The name that was given, or the one that stands for it; says which. */
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
