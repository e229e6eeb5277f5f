import org.jspecify.annotations.NullMarked;

/** The Vector API backend, and its kernels in machine code. */
@NullMarked
module dev.starforge.cpu {
    requires dev.starforge.tensor;
    requires jdk.incubator.vector;
    requires jdk.management;
    requires static org.jspecify;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.cpu.CpuBackend;
}
