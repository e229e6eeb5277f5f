package dev.starforge.data;

/** Tokenized documents of one split, in the order of the shard; immutable, safe to read from several threads. */
public interface TokenDocuments extends AutoCloseable {
    int count();

    /** Number of tokens of a document. */
    int length(int document);

    /** The ids, and for each whether it counts in the loss as a target. */
    TokenDocument read(int document);

    /** The tokens of all documents together. */
    long tokens();

    @Override
    void close();
}
