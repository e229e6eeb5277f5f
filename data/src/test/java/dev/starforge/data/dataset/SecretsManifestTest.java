package dev.starforge.data.dataset;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.dataset.report.DatasetReport;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a dataset says about secrets: masked, and the same however many threads looked for them. */
final class SecretsManifestTest {
    private static final int FILES = 24;

    @TempDir
    Path folder;

    @Test
    void noSecretRemainsAndTheManifestDoesNotDependOnThreads() throws IOException {
        Path repository = folder.resolve("repository");
        List<SecretsCorpus.Planted> planted = SecretsCorpus.make(3).stream()
                .filter(each -> each.set().equals("tune") && each.group().equals("style java"))
                .limit(FILES)
                .toList();
        try (Fixture git = new Fixture(repository)) {
            for (int i = 0; i < planted.size(); i++) {
                git.put(
                        "src/File" + i + ".java",
                        "class File" + i + " {\n" + planted.get(i).line() + "\n}\n");
                git.commit("Adds file " + i);
            }
        }
        Path one = folder.resolve("one");
        Path four = folder.resolve("four");
        DatasetReport report = Builds.build(repository, one, "threads", "1");
        Builds.build(repository, four, "threads", "4");
        assertThat(report.redacted().examples())
                .isNotEmpty()
                .allMatch(each -> each.masked().endsWith("*****"));
        assertThat(Files.readAllBytes(four.resolve("manifest.json")))
                .isEqualTo(Files.readAllBytes(one.resolve("manifest.json")));
        assertThat(Files.readString(one.resolve("manifest.json"))).contains("*****");
        try (Stream<Path> files = Files.walk(one)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                String text = file.toString().endsWith(".gz")
                        ? Builds.text(file)
                        : new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
                for (SecretsCorpus.Planted each : planted) {
                    assertThat(text.contains(each.secret()))
                            .as("%s in %s", each.secret(), file)
                            .isFalse();
                }
            }
        }
    }
}
