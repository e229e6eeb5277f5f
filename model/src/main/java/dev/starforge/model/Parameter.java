package dev.starforge.model;

import dev.starforge.tensor.Tensor;
import java.util.List;

/** A weight on the device and what it is in the files: the tensor of that name, or the stack of several. */
public record Parameter(List<String> names, Tensor tensor) {}
