package dev.starforge.train.merge;

/** Output format of a model: a HF folder with safetensors, or one GGUF file. */
public enum ModelFormat {
    HF,
    GGUF
}
