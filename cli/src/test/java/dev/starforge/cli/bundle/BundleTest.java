package dev.starforge.cli.bundle;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.file.Hashes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An archive as the system's own tar sees it. */
final class BundleTest {
    private static final String DEEP = "lib/" + "deep/".repeat(20) + "a-file-with-a-name.jar";

    @TempDir
    Path folder;

    private Path home;

    @BeforeEach
    void install() throws IOException {
        home = folder.resolve("home");
        for (String name : List.of(
                "starforge",
                "starforge.cmd",
                "LICENSE",
                "starforge.aot",
                "stamp",
                "lib/a.jar",
                DEEP,
                "sample/config.json",
                "runtime/lib/modules",
                "runtime/bin/java")) {
            Path file = home.resolve(name);
            Files.createDirectories(file.getParent());
            Files.writeString(file, name + "x".repeat(600));
        }
        assertThat(home.resolve("starforge").toFile().setExecutable(true)).isTrue();
        Files.writeString(folder.resolve("tuned.gguf"), "weights");
    }

    private Path unpacked(Bundle bundle) throws IOException, InterruptedException {
        Path out = folder.resolve("out.tar.gz");
        bundle.write(out);
        Path place = Files.createDirectory(folder.resolve("elsewhere"));
        Process tar = new ProcessBuilder("tar", "-xzf", out.toString(), "-C", place.toString())
                .inheritIO()
                .start();
        assertThat(tar.waitFor()).isZero();
        return place.resolve("starforge");
    }

    @Test
    void whatIsNeededIsInItWithItsHash() throws IOException, InterruptedException {
        Optional<Path> runtime = RuntimeImage.own(home);
        Path place = unpacked(new Bundle(home, runtime, Optional.of(folder.resolve("tuned.gguf"))));
        assertThat(place.resolve("starforge")).isExecutable();
        assertThat(place.resolve("LICENSE").toFile().canExecute()).isFalse();
        assertThat(place.resolve("models/tuned.gguf")).hasContent("weights");
        assertThat(place.resolve("starforge.aot")).doesNotExist();
        List<String> sums = Files.readAllLines(place.resolve("SHA256SUMS"));
        assertThat(sums).hasSize(9).anyMatch(line -> line.endsWith("  " + DEEP));
        for (String line : sums) {
            assertThat(Hashes.sha256(place.resolve(line.substring(66)))).isEqualTo(line.substring(0, 64));
        }
    }

    @Test
    void theSameFilesMakeTheSameArchive() throws IOException {
        Bundle bundle = new Bundle(home, Optional.empty(), Optional.empty());
        bundle.write(folder.resolve("a.tar.gz"));
        bundle.write(folder.resolve("b.tar.gz"));
        assertThat(folder.resolve("a.tar.gz")).hasSameBinaryContentAs(folder.resolve("b.tar.gz"));
    }

    @Test
    void aJdkIsNoRuntimeOfItsOwnAndOneWithoutModulesIsNamed() throws IOException {
        Files.delete(home.resolve("runtime/lib/modules"));
        assertThat(RuntimeImage.own(home)).isEmpty();
        assertThatThrownBy(() -> RuntimeImage.link(
                        home.resolve("lib"), Optional.of(home), Optional.empty(), folder.resolve("linked")))
                .isInstanceOf(RuntimeImage.MissingException.class)
                .hasMessageContaining("neither a jmods folder nor a bin/jlink");
    }
}
