package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Links and source paths in README, CONTRIBUTING and docs name files that exist. */
class DocsTest {
    private static final Path ROOT = Path.of("..");
    private static final Pattern LINK = Pattern.compile("\\]\\((?!https?:)([^)#]+)(?:#[^)]*)?\\)");

    /** A class as docs write it: {@code tensor/op/Tape}, below the root package of the module that it begins with. */
    private static final Pattern SOURCE = Pattern.compile("`([a-z]+)((?:/[a-z]+)*/[A-Z]\\w+)`");

    @Test
    void linksAndSourcePathsExist() throws IOException {
        List<String> missing = new ArrayList<>();
        int checked = 0;
        for (Path page : pages()) {
            String text = Files.readString(page);
            Matcher link = LINK.matcher(text);
            while (link.find()) {
                checked++;
                if (!Files.exists(page.resolveSibling(link.group(1)))) {
                    missing.add(ROOT.relativize(page) + ": " + link.group(1));
                }
            }
            Matcher source = SOURCE.matcher(text);
            while (source.find()) {
                checked++;
                if (isModule(source.group(1)) && !Files.exists(source(source.group(1), source.group(2)))) {
                    missing.add(ROOT.relativize(page) + ": " + source.group());
                }
            }
        }
        assertThat(missing).isEmpty();
        assertThat(checked).isGreaterThan(150);
    }

    private static boolean isModule(String folder) {
        return Files.isDirectory(ROOT.resolve(folder).resolve(Path.of("src", "main", "java")));
    }

    private static Path source(String module, String path) {
        Path root = ROOT.resolve(module).resolve(Path.of("src", "main", "java", "dev", "starforge"));
        return root.resolve(module + path + ".java");
    }

    private static List<Path> pages() throws IOException {
        List<Path> pages = new ArrayList<>(List.of(ROOT.resolve("README.md"), ROOT.resolve("CONTRIBUTING.md")));
        try (Stream<Path> files = Files.walk(ROOT.resolve("docs"))) {
            files.filter(file -> file.toString().endsWith(".md")).sorted().forEach(pages::add);
        }
        return pages;
    }
}
