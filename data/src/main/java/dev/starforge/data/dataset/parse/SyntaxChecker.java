package dev.starforge.data.dataset.parse;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.OptionalInt;

/** Counts syntax errors of source code with a parser process; see {@link ParserStarter}. */
public final class SyntaxChecker implements AutoCloseable {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final ParserPool pool;

    public SyntaxChecker(ParserStarter starter) {
        pool = new ParserPool(starter, 1, TIMEOUT);
    }

    /** The number of syntax errors; empty if there is no grammar or the parser process fails. */
    public OptionalInt errors(String grammar, String text) {
        try {
            return pool.errors(grammar, text.getBytes(StandardCharsets.UTF_8));
        } catch (ParserException e) {
            return OptionalInt.empty();
        }
    }

    @Override
    public void close() {
        pool.close();
    }
}
