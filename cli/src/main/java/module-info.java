import org.jspecify.annotations.NullMarked;

/** The composition root: one class per command, and the only module that reads flags and the environment. */
@NullMarked
module dev.starforge.cli {
    requires dev.starforge.api;
    requires dev.starforge.data;
    requires dev.starforge.serve;
    requires dev.starforge.train;
    requires info.picocli;
    requires java.management;
    requires java.net.http;
    requires jdk.unsupported;
    requires tools.jackson.databind;
    requires static org.jspecify;

    opens dev.starforge.cli.command to
            info.picocli;
    opens dev.starforge.cli.options to
            info.picocli;
}
