import org.jspecify.annotations.NullMarked;

/** Layers, one file per architecture, weight files, adapters, KV cache and generation. */
@SuppressWarnings("module") // the modules that it is exported to are built later
@NullMarked
module dev.starforge.model {
    requires transitive dev.starforge.tensor;
    requires tools.jackson.databind;
    requires static transitive org.jspecify;

    exports dev.starforge.model to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.model.convert to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.model.file to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.model.generate to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.model.gguf to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.model.kv to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.model.load to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.model.lora to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
}
