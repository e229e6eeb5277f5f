import org.jspecify.annotations.NullMarked;

/** Tensors, operations, scopes, the tape, the backend SPI, and the reference backend. */
@SuppressWarnings("module") // the modules that it is exported to are built later
@NullMarked
module dev.starforge.tensor {
    requires static transitive org.jspecify;

    exports dev.starforge.tensor to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.conformance,
            dev.starforge.cpu,
            dev.starforge.cuda,
            dev.starforge.kernels,
            dev.starforge.metal,
            dev.starforge.model,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.tensor.codec to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.conformance,
            dev.starforge.cpu,
            dev.starforge.cuda,
            dev.starforge.kernels,
            dev.starforge.metal,
            dev.starforge.model,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.tensor.device to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.conformance,
            dev.starforge.cpu,
            dev.starforge.cuda,
            dev.starforge.kernels,
            dev.starforge.metal,
            dev.starforge.model,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.tensor.op to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.conformance,
            dev.starforge.cpu,
            dev.starforge.cuda,
            dev.starforge.kernels,
            dev.starforge.metal,
            dev.starforge.model,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.tensor.host to
            dev.starforge.cpu;

    uses dev.starforge.tensor.device.Backend;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.tensor.reference.ReferenceBackend;
}
