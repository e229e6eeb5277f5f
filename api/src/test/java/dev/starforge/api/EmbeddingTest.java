package dev.starforge.api;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The example project as a stranger builds it: our jars are installed into a local Maven repository that has nothing else, Maven
 * compiles it against them, and it runs on the module path. What Maven itself needs comes from the repository that this build
 * uses, by a file: address, so there is no network.
 */
final class EmbeddingTest {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
    private static final String VERSION = "0.1.0-SNAPSHOT";

    @TempDir
    Path folder;

    @Test
    void theExampleCompilesAndRunsFromALocalRepository() throws IOException, InterruptedException {
        Path repository = folder.resolve("repository");
        install(repository);
        Path example = copy(ROOT.resolve("examples").resolve("embed"), folder.resolve("embed"));
        Path work = Files.createDirectory(folder.resolve("work"));

        Outcome maven = run(
                example,
                ROOT.resolve("mvnw").toString(),
                "-q",
                "-B",
                "-s",
                settings().toString(),
                "-Dmaven.repo.local=" + repository,
                "compile");
        assertThat(maven.code()).as(maven.out()).isZero();

        Outcome embedded = run(
                example,
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx512m",
                "-p",
                "target/classes" + File.pathSeparator + "target/lib",
                "--enable-native-access=dev.starforge.cpu,dev.starforge.cuda,dev.starforge.metal",
                "-m",
                "org.example.embed/org.example.embed.Embed",
                work.toString(),
                "cpu");
        assertThat(embedded.code()).as(embedded.out()).isZero();
        assertThat(embedded.out())
                .contains("devices: [")
                .contains("trained: FINISHED after 12 steps, loss fell")
                .contains("merged: logits differ by ")
                .contains("served: {\"object\":\"list\",\"data\":[{\"id\":\"tuned\"")
                .contains("refused: ")
                .contains("missing.gguf");
        assertThat(line(embedded.out(), "streamed: "))
                .isEqualTo(line(embedded.out(), "again: "))
                .isNotBlank();
    }

    /** A stranger reads every public type and member, and no line of ours breaks the tool. */
    @Test
    void javadocReportsNothingMissing() throws IOException {
        StringWriter out = new StringWriter();
        List<String> arguments = new ArrayList<>(List.of(
                "-quiet",
                "-Xdoclint:all",
                "-Xdoclint/package:dev.starforge.api",
                "-Werror",
                "-d",
                folder.resolve("javadoc").toString(),
                "--module-path",
                System.getProperty("java.class.path"),
                "--add-modules",
                "org.jspecify"));
        try (Stream<Path> sources = Files.walk(Path.of("src", "main", "java"))) {
            sources.filter(source -> source.toString().endsWith(".java"))
                    .forEach(source -> arguments.add(source.toString()));
        }
        int code = ToolProvider.findFirst("javadoc")
                .orElseThrow()
                .run(new PrintWriter(out), new PrintWriter(out), arguments.toArray(String[]::new));
        assertThat(code).as(out.toString()).isZero();
        assertThat(folder.resolve("javadoc/dev.starforge.api/dev/starforge/api/Starforge.html"))
                .isRegularFile();
    }

    private static String line(String out, String beginning) {
        return out.lines()
                .filter(line -> line.startsWith(beginning))
                .findFirst()
                .orElseThrow()
                .substring(beginning.length());
    }

    /** Our modules on this test's class path, each as Maven would install it, and the parent. */
    private void install(Path repository) throws IOException {
        Files.createDirectories(repository);
        pom(repository, "starforge", ROOT.resolve("pom.xml"));
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator, -1)) {
            Path place = Path.of(entry).toAbsolutePath().normalize();
            if (!place.startsWith(ROOT) || place.endsWith("test-classes")) {
                continue;
            }
            String module = ROOT.relativize(place).getName(0).toString();
            String artifact = "starforge-" + module;
            Path installed = pom(repository, artifact, ROOT.resolve(module).resolve("pom.xml"))
                    .resolve(artifact + "-" + VERSION + ".jar");
            if (Files.isDirectory(place)) {
                int code = ToolProvider.findFirst("jar")
                        .orElseThrow()
                        .run(System.err, System.err, "--create", "--file", installed.toString(), "-C", entry, ".");
                assertThat(code).as(entry).isZero();
            } else {
                Files.copy(place, installed);
            }
        }
    }

    private static Path pom(Path repository, String artifact, Path pom) throws IOException {
        Path place = Files.createDirectories(repository.resolve(Path.of("dev", "starforge", artifact, VERSION)));
        Files.copy(pom, place.resolve(artifact + "-" + VERSION + ".pom"));
        return place;
    }

    /** Everything that is not ours comes from where this build has it. */
    private Path settings() throws IOException {
        return Files.writeString(folder.resolve("settings.xml"), """
                <settings>
                  <mirrors>
                    <mirror>
                      <id>this-build</id>
                      <mirrorOf>*</mirrorOf>
                      <url>%s</url>
                    </mirror>
                  </mirrors>
                </settings>
                """.formatted(
                        Path.of(System.getProperty("localRepository")).toUri()));
    }

    private static Path copy(Path from, Path to) throws IOException {
        Files.walkFileTree(from, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path each, BasicFileAttributes facts) throws IOException {
                if (each.endsWith("target")) {
                    return FileVisitResult.SKIP_SUBTREE;
                }
                Files.createDirectories(to.resolve(from.relativize(each)));
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path each, BasicFileAttributes facts) throws IOException {
                Files.copy(each, to.resolve(from.relativize(each)));
                return FileVisitResult.CONTINUE;
            }
        });
        return to;
    }

    private record Outcome(int code, String out) {}

    private static Outcome run(Path where, String... command) throws IOException, InterruptedException {
        Path said = Files.createTempFile(where, "said", ".txt");
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory(where.toFile())
                .redirectErrorStream(true)
                .redirectOutput(said.toFile());
        builder.environment().put("MAVEN_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"); // half its time
        Process process = builder.start();
        boolean ended = process.waitFor(2, TimeUnit.MINUTES);
        process.destroyForcibly();
        String out = Files.readString(said);
        assertThat(ended).as(out).isTrue();
        return new Outcome(process.exitValue(), out);
    }
}
