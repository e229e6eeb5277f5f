package dev.starforge.cpu.machine;

/** Caller-saved general registers of the System V ABI, by number; the first six are the arguments. */
enum Register {
    RDI(7),
    RSI(6),
    RDX(2),
    RCX(1),
    R8(8),
    R9(9),
    R10(10),
    R11(11),
    RAX(0),
    /** The instruction pointer, for addressing constants after the code. */
    RIP(5);

    final int number;

    Register(int number) {
        this.number = number;
    }
}
