import org.jspecify.annotations.NullMarked;

/** Settings, the training step, the run around it with its checkpoints, evaluation and export. */
@NullMarked
module dev.starforge.train {
    requires transitive dev.starforge.data;
    requires transitive dev.starforge.model;
    requires transitive tools.jackson.databind;
    requires static transitive org.jspecify;

    exports dev.starforge.train;
    exports dev.starforge.train.config;
    exports dev.starforge.train.corpus;
    exports dev.starforge.train.eval;
    exports dev.starforge.train.merge;
    exports dev.starforge.train.plan;
    exports dev.starforge.train.run;
    exports dev.starforge.train.text;
    exports dev.starforge.train.tune;
    exports dev.starforge.train.verify;
}
