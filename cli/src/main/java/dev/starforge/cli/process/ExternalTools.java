package dev.starforge.cli.process;

import dev.starforge.data.dataset.parse.SyntaxChecker;
import dev.starforge.train.eval.Evaluation;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.Stream;

/**
 * External programs of the evaluation: a child process with tree-sitter grammars, and {@code xz} if it is on the path. The
 * program avoids a dependency for a baseline metric.
 */
public final class ExternalTools implements Evaluation.Tools, AutoCloseable {
    private final Path temporary;
    private final SyntaxChecker grammars;
    private final List<String> compressor;

    public ExternalTools() throws IOException {
        this(List.of("xz", "-9", "--stdout", "--threads=1"));
    }

    /** @param compressor reads standard input and writes standard output */
    ExternalTools(List<String> compressor) throws IOException {
        this.compressor = compressor;
        temporary = Files.createTempDirectory("starforge-grammars");
        grammars = new SyntaxChecker(GrammarProcess.starter(temporary));
    }

    @Override
    public OptionalInt errors(String grammar, String text) {
        return grammars.errors(grammar, text);
    }

    @Override
    public OptionalLong xz(byte[] text) {
        try {
            Process process = new ProcessBuilder(compressor)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            Thread writer = Thread.ofVirtual().start(() -> feed(process, text));
            long bytes = process.getInputStream().transferTo(OutputStream.nullOutputStream());
            writer.join();
            return process.waitFor() == 0 ? OptionalLong.of(bytes) : OptionalLong.empty();
        } catch (IOException e) {
            return OptionalLong.empty();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return OptionalLong.empty();
        }
    }

    /** Writes the input. A compressor that exits early is detected by its exit code. */
    private static void feed(Process process, byte[] text) {
        try (OutputStream in = process.getOutputStream()) {
            in.write(text);
        } catch (IOException closed) {
            process.destroy();
        }
    }

    @Override
    public void close() throws IOException {
        grammars.close();
        try (Stream<Path> tree = Files.walk(temporary)) {
            for (Path each : tree.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(each);
            }
        }
    }
}
