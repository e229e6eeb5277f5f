package dev.starforge.model;

import dev.starforge.tensor.Tensor;
import java.util.List;

/** A weight on the device, with the names of the file tensors that it was loaded from: one, or several for a stack. */
public record Parameter(List<String> names, Tensor tensor) {}
