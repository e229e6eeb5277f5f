package dev.starforge.cpu.machine;

/** General registers that a function of the System V ABI may use freely, by their numbers; the first six are its arguments. */
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
    /** The instruction itself: where constants behind the code are addressed from. */
    RIP(5);

    final int number;

    Register(int number) {
        this.number = number;
    }
}
