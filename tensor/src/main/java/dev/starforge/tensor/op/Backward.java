package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;

/** What a gradient rule sees: the tensors its op declared as saved, the output gradients, and where to put its answers. */
public interface Backward extends Op.Needs {
    /** How many inputs the op had. */
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

    /** Answers with the gradient of an input, which is cast to {@link #gradientType} if it is not of that type. */
    void give(int input, Tensor gradient);

    /** The same of a product that nobody has computed yet: it may be added to the gradient that is there. */
    void give(int input, Plain.MatMul product, Tensor a, Tensor b);
}
