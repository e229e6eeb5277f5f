import org.jspecify.annotations.NullMarked;

/** The inference worker: HTTP, its APIs, and the engine they ask; and the pool that starts and watches workers. */
@NullMarked
module dev.starforge.serve {
    requires transitive dev.starforge.data;
    requires transitive dev.starforge.model;
    requires java.net.http;
    requires transitive tools.jackson.databind;
    requires static transitive org.jspecify;

    exports dev.starforge.serve;
    exports dev.starforge.serve.engine;
    exports dev.starforge.serve.http;
    exports dev.starforge.serve.log;
    exports dev.starforge.serve.pool;
    exports dev.starforge.serve.pool.config;
    exports dev.starforge.serve.scheduler;
}
