import org.jspecify.annotations.NullMarked;

/** Tensors, operations, scopes, the tape, the backend SPI, and the reference backend. */
@SuppressWarnings("module") // the backend that host memory is exported to is built later
@NullMarked
module dev.starforge.tensor {
    requires static transitive org.jspecify;

    exports dev.starforge.tensor;
    exports dev.starforge.tensor.codec;
    exports dev.starforge.tensor.device;
    exports dev.starforge.tensor.op;
    exports dev.starforge.tensor.host to
            dev.starforge.cpu;

    uses dev.starforge.tensor.device.Backend;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.tensor.reference.ReferenceBackend;
}
