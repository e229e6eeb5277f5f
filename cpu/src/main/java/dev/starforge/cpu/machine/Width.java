package dev.starforge.cpu.machine;

/** The vectors that a kernel is written for: AVX2's, sixteen of 256 bits, or AVX-512's, 32 of 512. */
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
