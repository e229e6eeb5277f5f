import org.jspecify.annotations.NullMarked;

/** The inference worker: HTTP, its APIs, and the engine they ask; and the pool that starts and watches workers. */
@SuppressWarnings("module") // the modules that it is exported to are built later
@NullMarked
module dev.starforge.serve {
    requires transitive dev.starforge.model;
    requires transitive dev.starforge.text;
    requires java.net.http;
    requires transitive tools.jackson.databind;
    requires static transitive org.jspecify;

    exports dev.starforge.serve to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.serve.engine to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.serve.http to
            dev.starforge.cli;
    exports dev.starforge.serve.log to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.serve.pool to
            dev.starforge.cli;
    exports dev.starforge.serve.pool.config to
            dev.starforge.cli;
    exports dev.starforge.serve.scheduler to
            dev.starforge.api,
            dev.starforge.cli;
}
