/** Settings, the training step, the run around it with its checkpoints, evaluation and export. */
module dev.starforge.train {
    requires transitive dev.starforge.data;
    requires transitive dev.starforge.model;
    requires transitive tools.jackson.databind;

    exports dev.starforge.train;
    exports dev.starforge.train.config;
}
