/** The Vector API backend. */
module dev.starforge.cpu {
    requires dev.starforge.tensor;
    requires jdk.incubator.vector;

    provides dev.starforge.tensor.device.Backend with
            dev.starforge.cpu.CpuBackend;
}
