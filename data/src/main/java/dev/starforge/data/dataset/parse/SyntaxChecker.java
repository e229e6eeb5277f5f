package dev.starforge.data.dataset.parse;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.OptionalInt;

/** Asks a child process whether texts fit the grammar of their language; see {@link ParserStarter}. */
public final class SyntaxChecker implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final ParserPool pool;

    public SyntaxChecker(ParserStarter starter) {
        pool = new ParserPool(starter, 1, PATIENCE);
    }

    /** How many places of a text do not fit its grammar; empty where there is no grammar, or no child that answers. */
    public OptionalInt errors(String grammar, String text) {
        return pool.errors(grammar, text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() {
        pool.close();
    }
}
