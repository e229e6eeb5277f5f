package dev.starforge.data.dataset.parse;

import java.io.IOException;

/** Starts a process that knows grammars; one that cannot be started leaves files to be split without. */
public interface ParserStarter {
    Process start() throws IOException;
}
