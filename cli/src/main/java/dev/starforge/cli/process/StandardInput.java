package dev.starforge.cli.process;

import java.io.Console;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * Where a command reads text that is not on its command line.
 *
 * @param terminal whether somebody sits there, who is not to be kept waiting for a prompt nobody asked for
 */
public record StandardInput(InputStream bytes, boolean terminal) {
    /** More than any model's context. */
    static final int LIMIT = 1 << 24;

    public static StandardInput ofProcess() {
        Console console = System.console();
        return new StandardInput(System.in, console != null && console.isTerminal());
    }

    /** Everything, exactly as it is. */
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
