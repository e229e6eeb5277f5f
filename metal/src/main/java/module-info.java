/** The Metal backend: so far it finds the GPU and says what it is. */
module dev.starforge.metal {
    requires dev.starforge.tensor;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.metal.MetalBackend;
}
