/** The composition root: one class per verb, and the only place that reads flags and the environment. */
module dev.starforge.cli {
    requires dev.starforge.data;
    requires dev.starforge.train;
    requires info.picocli;
    requires java.management;
    requires tools.jackson.databind;

    opens dev.starforge.cli to
            info.picocli;
}
