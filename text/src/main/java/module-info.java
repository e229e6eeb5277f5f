import org.jspecify.annotations.NullMarked;

/** Tokenizers, chat templates, fill-in-the-middle, configuration files, secret detection. Has no tensors and no git. */
@SuppressWarnings("module") // the modules that it is exported to are built later
@NullMarked
module dev.starforge.text {
    requires static transitive org.jspecify;
    requires transitive org.snakeyaml.engine;
    requires transitive tools.jackson.databind;

    exports dev.starforge.text to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.config to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.fim to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.file to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.json to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.report to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.secrets to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.template to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.tokenizer to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
    exports dev.starforge.text.trainer to
            dev.starforge.api,
            dev.starforge.cli,
            dev.starforge.data,
            dev.starforge.serve,
            dev.starforge.train;
}
