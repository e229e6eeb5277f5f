import org.jspecify.annotations.NullMarked;

/**
 * Starforge as a library: list devices, load a model, generate, train from a config file, merge adapters.
 *
 * <p>{@link dev.starforge.api.Starforge} is the entry point.
 */
@NullMarked
module dev.starforge.api {
    requires dev.starforge.train;
    requires static org.jspecify;

    exports dev.starforge.api;
}
