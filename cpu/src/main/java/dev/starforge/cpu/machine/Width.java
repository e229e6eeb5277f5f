package dev.starforge.cpu.machine;

/** The vector registers of a kernel: AVX2 (16 of 256 bits) or AVX-512 (32 of 512 bits). */
enum Width {
    YMM(32, 16),
    ZMM(64, 32);

    final int bytes;
    final int registers;

    Width(int bytes, int registers) {
        this.bytes = bytes;
        this.registers = registers;
    }
}
