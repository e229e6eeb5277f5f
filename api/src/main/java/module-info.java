import org.jspecify.annotations.NullMarked;

/**
 * Starforge as a library: list devices, load a model, generate, serve, train from a config file, merge adapters.
 *
 * <p>{@link dev.starforge.api.Starforge} is the entry point.
 */
@SuppressWarnings("module") // the module that it is exported to is built later
@NullMarked
module dev.starforge.api {
    requires dev.starforge.serve;
    requires dev.starforge.train;
    requires static org.jspecify;

    exports dev.starforge.api;
    exports dev.starforge.api.server to
            dev.starforge.cli;
}
