/** A program that embeds Starforge. */
module org.example.embed {
    requires dev.starforge.api;
}
