package dev.starforge.tensor;

import java.nio.file.Path;

/** Bytes {@code from} to {@code from + bytes - 1} of a file: the elements of one tensor, little-endian and in order. */
public record FileRegion(Path file, long from, long bytes) {}
