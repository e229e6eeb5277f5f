import org.jspecify.annotations.NullMarked;

/** The Metal backend: the Objective-C runtime and Metal through the Foreign Function and Memory API. */
@NullMarked
module dev.starforge.metal {
    requires dev.starforge.kernels;
    requires dev.starforge.tensor;
    requires static org.jspecify;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.metal.MetalBackend;
}
