package dev.starforge.cli.process;

import dev.starforge.data.dataset.parse.ParserStarter;
import java.io.File;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Starts the child process with tree-sitter grammars, which isolates their native code. */
public final class GrammarProcess {
    private GrammarProcess() {}

    /** @param temporary existing folder for the unpacked native libraries */
    public static ParserStarter starter(Path temporary) {
        String path = grammarPath();
        return () -> new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Xmx256m",
                        "-Xshare:auto",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Djava.io.tmpdir=" + temporary.toAbsolutePath(),
                        "-cp",
                        path,
                        "dev.starforge.grammar.GrammarMain")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
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
