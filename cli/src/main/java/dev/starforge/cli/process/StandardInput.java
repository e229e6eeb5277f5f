package dev.starforge.cli.process;

import java.io.Console;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * Standard input of a command.
 *
 * @param terminal true if it is a terminal, where a command must not wait for input silently
 */
public record StandardInput(InputStream bytes, boolean terminal) {
    /** Maximum number of bytes, more than the context of any model. */
    static final int LIMIT = 1 << 24;

    public static StandardInput ofProcess() {
        Console console = System.console();
        return new StandardInput(System.in, console != null && console.isTerminal());
    }

    /** Reads all input as UTF-8. */
    public String text() throws IOException {
        byte[] all = bytes.readNBytes(LIMIT + 1);
        if (all.length > LIMIT) {
            throw new IOException("standard input: expected at most " + LIMIT + " bytes");
        }
        try {
            return StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(all))
                    .toString();
        } catch (CharacterCodingException malformed) {
            throw new IOException("standard input: expected UTF-8", malformed);
        }
    }
}
