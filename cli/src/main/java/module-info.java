import org.jspecify.annotations.NullMarked;

/** The composition root: one class per verb, and the only place that reads flags and the environment. */
@NullMarked
module dev.starforge.cli {
    requires dev.starforge.data;
    requires dev.starforge.serve;
    requires dev.starforge.train;
    requires info.picocli;
    requires java.management;
    requires java.net.http;
    requires jdk.unsupported;
    requires tools.jackson.databind;
    requires static org.jspecify;

    opens dev.starforge.cli to
            info.picocli;
}
