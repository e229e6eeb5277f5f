/** Loss, optimizer and the training step. */
module dev.starforge.train {
    requires transitive dev.starforge.model;

    exports dev.starforge.train;
}
