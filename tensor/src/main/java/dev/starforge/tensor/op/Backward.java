package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;

/** The context of a gradient rule: saved tensors, output gradients, and where to put the input gradients. */
public interface Backward extends Op.Needs {
    /** Number of inputs of the op. */
    int inputs();

    /** A saved input. Throws if the op did not declare it. */
    Tensor in(int input);

    /** A saved output. Throws if the op did not declare it. */
    Tensor out(int output);

    /** Type and shape of an input, saved or not. */
    Spec spec(int input);

    /** The type of an input's gradient: float32 where the input is, unless it is a product of 16 bits, or was rounded from float32. */
    DType gradientType(int input);

    /** The gradient of an output. */
    Tensor d(int output);

    /** Sets the gradient of an input, cast to {@link #gradientType}. */
    void give(int input, Tensor gradient);

    /** Sets the gradient of an input to a product that is not computed yet, so that it can be fused with the addition to an existing gradient. */
    void give(int input, Plain.MatMul product, Tensor a, Tensor b);
}
