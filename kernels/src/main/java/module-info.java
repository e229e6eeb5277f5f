import org.jspecify.annotations.NullMarked;

/** GPU kernels that are written once: their sources, and which of them run an operation. No device is known here. */
@SuppressWarnings("module") // the backends that it is exported to are built later
@NullMarked
module dev.starforge.kernels {
    requires transitive dev.starforge.tensor;
    requires static org.jspecify;

    exports dev.starforge.kernels to
            dev.starforge.cuda,
            dev.starforge.metal;
}
