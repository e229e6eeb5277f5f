package dev.starforge.text.pretokenizer;

import dev.starforge.text.TokenizerException;
import java.nio.file.Path;

/**
 * Limits the work of one call on the regular expressions of an untrusted file: characters read and characters written.
 * Catastrophic backtracking and replacements that grow the text exponentially end in an error.
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

    /** Starts a call on {@code characters} characters. */
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
