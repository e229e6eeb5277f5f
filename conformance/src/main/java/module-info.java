import org.jspecify.annotations.NullMarked;

/** Every operation on every backend against the reference. Run it, do not call it: nothing is exported. */
@NullMarked
module dev.starforge.conformance {
    requires java.management; // tests count what is allocated
    requires jdk.management;
    requires java.net.http; // tests ask a worker
    requires dev.starforge.tensor;
    requires static org.jspecify;
}
