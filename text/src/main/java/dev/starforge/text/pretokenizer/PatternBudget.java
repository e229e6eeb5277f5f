package dev.starforge.text.pretokenizer;

import dev.starforge.text.TokenizerException;
import java.nio.file.Path;

/**
 * What one call may spend on the patterns of an untrusted file: so many characters read, so many written. A pattern
 * that backtracks without end, or replacements that double the text again and again, end in an error instead.
 */
public final class PatternBudget {
    private static final long READS = 10_000_000;
    private static final int READS_PER_CHARACTER = 1000;
    private static final long WRITES = 1 << 20;
    private static final int WRITES_PER_CHARACTER = 64;

    private final Path file;
    private long reads;
    private long writes;

    public PatternBudget(Path file) {
        this.file = file;
    }

    /** Begins a call about {@code characters} of text. */
    public void begin(long characters) {
        reads = READS + READS_PER_CHARACTER * characters;
        writes = WRITES + WRITES_PER_CHARACTER * characters;
    }

    void read() {
        if (--reads < 0) {
            throw new TokenizerException(file, "a pattern of this file reads this text too often to end in time");
        }
    }

    void write(long characters) {
        writes -= characters;
        if (writes < 0) {
            throw new TokenizerException(file, "the replacements of this file make this text too long");
        }
    }

    TokenizerException tooDeep(StackOverflowError cause) {
        return new TokenizerException(file, "a pattern of this file nests too deeply on this text", cause);
    }
}
