import org.jspecify.annotations.NullMarked;

/** The Metal backend: so far it finds the GPU and says what it is. */
@NullMarked
module dev.starforge.metal {
    requires dev.starforge.kernels;
    requires static org.jspecify;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.metal.MetalBackend;
}
