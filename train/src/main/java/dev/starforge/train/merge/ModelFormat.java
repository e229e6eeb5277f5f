package dev.starforge.train.merge;

/** How a model is written: a folder with safetensors, as HF has it, or one GGUF file, as llama.cpp has it. */
public enum ModelFormat {
    HF,
    GGUF
}
