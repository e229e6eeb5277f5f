import org.jspecify.annotations.NullMarked;

/**
 * The program as a library: find devices, load a model, generate, train from a file of settings, merge.
 *
 * <p>{@link dev.starforge.api.Starforge} is where to begin.
 */
@NullMarked
module dev.starforge.api {
    requires dev.starforge.train;
    requires static org.jspecify;

    exports dev.starforge.api;
}
