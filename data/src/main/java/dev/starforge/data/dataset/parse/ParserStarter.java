package dev.starforge.data.dataset.parse;

import java.io.IOException;

/** Starts a parser process. If that fails, files are split without a grammar. */
public interface ParserStarter {
    Process start() throws IOException;
}
