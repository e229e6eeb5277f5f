import org.jspecify.annotations.NullMarked;

/** Tokenizers, and the way from a git repository to tokenized samples; no tensors, nothing of the other modules. */
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

    exports dev.starforge.data;
    exports dev.starforge.data.chat;
    exports dev.starforge.data.config;
    exports dev.starforge.data.dataset;
    exports dev.starforge.data.report;
    exports dev.starforge.data.secrets;
}
