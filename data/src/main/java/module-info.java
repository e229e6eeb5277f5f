/** Tokenizers: text to ids and back; no tensors, nothing of the other modules. */
module dev.starforge.data {
    requires tools.jackson.databind;

    exports dev.starforge.data;
}
