import org.jspecify.annotations.NullMarked;

/** Tokenizers, and the way from a git repository to tokenized samples; no tensors, nothing of the other modules. */
@SuppressWarnings("module") // the modules that it is exported to are built later
@NullMarked
module dev.starforge.data {
    requires org.eclipse.jgit;
    requires static transitive org.jspecify;
    requires transitive org.snakeyaml.engine;
    requires transitive tools.jackson.databind;
    // JGit, no module itself yet, cannot say that it needs these
    requires com.googlecode.javaewah;
    requires java.management;
    requires org.slf4j;

    exports dev.starforge.data to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.chat to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.config to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.dataset to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.dataset.config to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.dataset.parse to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.dataset.report to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.report to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.data.secrets to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.serve,
            dev.starforge.train;
}
