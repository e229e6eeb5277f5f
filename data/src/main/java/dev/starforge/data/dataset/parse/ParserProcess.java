package dev.starforge.data.dataset.parse;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/** A parser process and the pipes to it. */
final class ParserProcess {
    private static final int MAX_ERROR_BYTES = 4096;
    private static final int LAST_WORDS_MILLIS = 500;
    private static final String CAUSE = "Caused by: ";
    private static final Pattern EXCEPTION =
            Pattern.compile("Exception in thread \"\\w+\" |" + CAUSE + "|(?:\\w+\\.)+\\w+: ");

    /** Reads the response for a text of {@code length} bytes. */
    interface ResponseReader<T> {
        T read(DataInputStream in, int length) throws IOException;
    }

    private final Process process;
    private final DataInputStream in;
    private final DataOutputStream out;
    private final Thread reader;
    private volatile String errors = "";

    ParserProcess(Process process) {
        this.process = process;
        in = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16));
        out = new DataOutputStream(new BufferedOutputStream(process.getOutputStream(), 1 << 16));
        reader = Thread.ofVirtual().start(this::readErrors);
    }

    private void readErrors() {
        try (InputStream stream = process.getErrorStream()) {
            byte[] first = stream.readNBytes(MAX_ERROR_BYTES);
            errors = new String(first, StandardCharsets.UTF_8);
            stream.transferTo(OutputStream.nullOutputStream()); // a full pipe would block the process
        } catch (IOException closed) {
            // the process has ended: what was read is all there is
        }
    }

    boolean isAlive() {
        return process.isAlive();
    }

    <T> T ask(String grammar, byte[] content, ResponseReader<T> reading) throws IOException {
        byte[] name = grammar.getBytes(StandardCharsets.UTF_8);
        out.writeInt(name.length);
        out.write(name);
        out.writeInt(content.length);
        out.write(content);
        out.flush();
        return reading.read(in, content.length);
    }

    void kill() {
        process.destroyForcibly();
    }

    /** Returns the cause that an ended process wrote to standard error, or the first line, without names of exceptions. */
    String errorMessage() throws InterruptedException {
        if (process.waitFor(LAST_WORDS_MILLIS, TimeUnit.MILLISECONDS)) {
            reader.join(LAST_WORDS_MILLIS);
        }
        String line = errors.lines()
                .filter(each -> each.startsWith(CAUSE))
                .reduce((_, last) -> last)
                .or(() -> errors.lines().findFirst())
                .orElse("");
        return EXCEPTION.matcher(line).replaceAll("").strip();
    }

    /** Ends the process. This closes its pipes, and loses what was not read from them. */
    void end() {
        process.destroyForcibly().onExit().join();
    }
}
