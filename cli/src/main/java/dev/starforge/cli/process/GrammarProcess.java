package dev.starforge.cli.process;

import dev.starforge.data.dataset.parse.ParserStarter;
import java.io.File;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Starts the child process with tree-sitter grammars, which isolates their native code. Its libraries are unpacked in a given
 * folder, or in the system's temporary folder if that one is too full, or mounted so that nothing in it may be executed.
 */
public final class GrammarProcess implements ParserStarter {
    /** More than the size of all libraries. */
    private static final long LIBRARY_BYTES = 64L << 20;

    private final Path given;
    private @Nullable Path chosen;

    private GrammarProcess(Path given) {
        this.given = given;
    }

    /** @param temporary folder for the unpacked native libraries, which exists when the first process starts */
    public static ParserStarter starter(Path temporary) {
        return new GrammarProcess(temporary);
    }

    @Override
    public synchronized Process start() throws IOException {
        Path folder = chosen;
        if (folder == null) {
            folder = holdsLibraries(given) ? given : Files.createTempDirectory("starforge-grammars");
            chosen = folder;
        }
        return new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Xmx256m",
                        "-Xshare:auto",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Djava.io.tmpdir=" + folder.toAbsolutePath(),
                        "-cp",
                        grammarPath(),
                        "dev.starforge.grammar.GrammarMain")
                .start();
    }

    /** Returns true if a folder has space for the libraries, and its files may be executed. */
    private static boolean holdsLibraries(Path folder) {
        try {
            Path file = Files.createTempFile(folder, "probe", "");
            try {
                return file.toFile().setExecutable(true)
                        && Files.isExecutable(file)
                        && Files.getFileStore(folder).getUsableSpace() >= LIBRARY_BYTES;
            } finally {
                Files.delete(file);
            }
        } catch (IOException e) {
            return false;
        }
    }

    @Override
    public synchronized void close() {
        if (chosen == null || chosen.equals(given)) {
            return;
        }
        try (Stream<Path> files = Files.walk(chosen)) {
            List<Path> all = files.sorted(Comparator.reverseOrder()).toList();
            for (Path file : all) {
                Files.deleteIfExists(file);
            }
        } catch (IOException e) {
            // a library that is still mapped; the system removes its temporary files
        }
        chosen = null;
    }

    /** The grammar folder beside this jar in an installation; the class path in tests. */
    private static String grammarPath() {
        try {
            Path own = Path.of(GrammarProcess.class
                    .getProtectionDomain()
                    .getCodeSource()
                    .getLocation()
                    .toURI());
            Path folder = own.resolveSibling("grammar");
            return Files.isDirectory(folder) ? folder + File.separator + "*" : System.getProperty("java.class.path");
        } catch (URISyntaxException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
