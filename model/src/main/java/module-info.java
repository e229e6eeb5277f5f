/** Layers, one file per architecture, weight files, adapters, KV cache and generation. */
module dev.starforge.model {
    requires transitive dev.starforge.tensor;
    requires tools.jackson.databind;

    exports dev.starforge.model;
}
