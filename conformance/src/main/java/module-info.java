/** Every operation on every backend against the reference. Run it, do not call it: nothing is exported. */
module dev.starforge.conformance {
    requires java.management; // tests count what is allocated
    requires jdk.management;
    requires dev.starforge.tensor;
}
