import org.jspecify.annotations.NullMarked;

/** Settings, the training step, the run around it with its checkpoints, evaluation and export. */
@SuppressWarnings("module") // the modules that it is exported to are built later
@NullMarked
module dev.starforge.train {
    requires transitive dev.starforge.data;
    requires transitive dev.starforge.model;
    requires transitive tools.jackson.databind;
    requires static transitive org.jspecify;

    exports dev.starforge.train to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.checkpoint to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.config to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.corpus to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.eval to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.merge to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.plan to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.quantize to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.run to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.text to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.trainer to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.tune to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.verify to
            dev.starforge.api,
            dev.starforge.cli;
    exports dev.starforge.train.weights to
            dev.starforge.api,
            dev.starforge.cli;
}
