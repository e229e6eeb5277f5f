package dev.starforge.train.merge;

import java.nio.file.Path;

/** The usual place of a run's merged model: beside the run. */
public final class MergeOutput {
    private MergeOutput() {}

    /** @param gguf whether the base is a GGUF file, so that the merged model is one, too */
    public static Path of(Path run, boolean gguf) {
        return run.resolveSibling(run.getFileName() + "-merged" + (gguf ? ".gguf" : ""));
    }
}
