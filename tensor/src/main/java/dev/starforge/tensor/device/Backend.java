package dev.starforge.tensor.device;

import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Op;

/** One kind of device, found with {@link java.util.ServiceLoader}. Asking what is there never fails and never opens anything. */
public interface Backend {
    /** cpu, cuda, metal, reference: what {@code --device} takes. */
    String name();

    /** Higher is preferred when no device is named; negative is never chosen by itself. */
    int preference();

    /** What is there, or why nothing is. Does not throw. */
    Probe probe();

    /** The support this backend's devices declare; answered without a device, for the generated table. */
    Support supports(Op op, Spec... in);

    /** Opens a device; throws {@link DeviceException} with the reason if it cannot. */
    Device open(DeviceOptions options);
}
