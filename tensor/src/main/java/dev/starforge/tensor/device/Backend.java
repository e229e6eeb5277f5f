package dev.starforge.tensor.device;

import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Op;

/** One kind of device, found with {@link java.util.ServiceLoader}. Probing never fails and opens no device. */
public interface Backend {
    /** cpu, cuda, metal, reference: what {@code --device} takes. */
    String name();

    /** The backend with the highest preference is used with {@code --device auto}; a negative one only if named. */
    int preference();

    /** Returns the available devices, or the reason why there are none. Does not throw. */
    Probe probe();

    /** The support that devices of this backend declare. Needs no device; docs/ops.md is generated from it. */
    Support supports(Op op, Spec... in);

    /** Opens a device; throws {@link DeviceException} with the reason if it cannot. */
    Device open(DeviceOptions options);
}
