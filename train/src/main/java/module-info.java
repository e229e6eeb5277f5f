import org.jspecify.annotations.NullMarked;

/** Settings, the training step, the run around it with its checkpoints, evaluation and export. */
@NullMarked
module dev.starforge.train {
    requires transitive dev.starforge.data;
    requires transitive dev.starforge.model;
    requires org.snakeyaml.engine;
    requires transitive tools.jackson.databind;
    requires static transitive org.jspecify;

    exports dev.starforge.train;
}
