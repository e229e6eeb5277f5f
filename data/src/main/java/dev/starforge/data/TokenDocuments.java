package dev.starforge.data;

/** Tokenized documents of one split, in the order of the shard; immutable, safe to read from several threads. */
public interface TokenDocuments extends AutoCloseable {
    int count();

    /** Number of tokens of a document. */
    int length(int document);

    /** Reads the ids and the loss mask of a document. */
    TokenDocument read(int document);

    /** Returns the total number of tokens. */
    long tokens();

    @Override
    void close();
}
