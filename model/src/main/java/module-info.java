import org.jspecify.annotations.NullMarked;

/** Layers, one file per architecture, weight files, adapters, KV cache and generation. */
@NullMarked
module dev.starforge.model {
    requires transitive dev.starforge.tensor;
    requires tools.jackson.databind;
    requires static transitive org.jspecify;

    exports dev.starforge.model;
    exports dev.starforge.model.file;
    exports dev.starforge.model.generate;
    exports dev.starforge.model.gguf;
    exports dev.starforge.model.kv;
    exports dev.starforge.model.lora;
}
