import org.jspecify.annotations.NullMarked;

/** The dataset pipeline: from a git repository to token shards. Has no tensors. */
@SuppressWarnings("module") // the modules that it is exported to are built later
@NullMarked
module dev.starforge.data {
    requires transitive dev.starforge.text;
    requires org.eclipse.jgit;
    requires static transitive org.jspecify;
    requires transitive tools.jackson.databind;
    // JGit, no module itself yet, cannot say that it needs these
    requires com.googlecode.javaewah;
    requires java.management;
    requires org.slf4j;

    exports dev.starforge.data to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.train;
    exports dev.starforge.data.dataset to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.train;
    exports dev.starforge.data.dataset.config to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.train;
    exports dev.starforge.data.dataset.parse to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.train;
    exports dev.starforge.data.dataset.report to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.train;
}
