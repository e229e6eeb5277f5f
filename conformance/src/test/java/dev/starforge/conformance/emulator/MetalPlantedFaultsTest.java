package dev.starforge.conformance.emulator;

/** The same faults in the text that Metal compiles. */
class MetalPlantedFaultsTest extends PlantedFaultsTest {
    @Override
    Emulator emulator() {
        return Emulator.requireMetal();
    }

    @Override
    String placeOfSimdSum() {
        return "the kernel:";
    }
}
