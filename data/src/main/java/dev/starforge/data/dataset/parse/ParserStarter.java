package dev.starforge.data.dataset.parse;

import java.io.IOException;

/** Starts parser processes, and removes their files when it is closed. */
public interface ParserStarter extends AutoCloseable {
    Process start() throws IOException;

    @Override
    default void close() {}
}
