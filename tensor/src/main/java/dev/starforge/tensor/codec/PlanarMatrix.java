package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/** A matrix of a planar type: its planes, one after another from the buffer's position on. */
public record PlanarMatrix(ByteBuffer planes, int rows, int columns) {}
