package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Holds sources, help texts and docs to the vocabulary of the field: no line contains a word of {@code denylist.txt}. The
 * experiment log quotes what was there at the time and is exempt.
 */
class VocabularyTest {
    private static final Path ROOT = Path.of("..");
    private static final Map<String, List<Rule>> RULES = rules();

    /** Strings and comments, which the rules for identifiers ignore. */
    private static final Pattern NOT_CODE = Pattern.compile("\"(?:\\\\.|[^\"\\\\])*\"|//.*|^\\s*/?\\*.*");

    private record Rule(Pattern pattern, String instead) {}

    @Test
    void noLineContainsADeniedWord() throws IOException {
        List<String> hits = new ArrayList<>();
        for (Path file : files()) {
            List<String> lines = Files.readAllLines(file);
            for (int i = 0; i < lines.size(); i++) {
                for (String hit : hits(file.toString(), lines.get(i))) {
                    hits.add(ROOT.relativize(file) + ":" + (i + 1) + ": " + hit);
                }
            }
        }
        assertThat(hits).isEmpty();
    }

    @ParameterizedTest
    @CsvSource({
        "docs/x.md, 'nobody is notified', 1",
        "cpu/src/main/java/X.java, '// a sequence, whatever its company', 1",
        "cpu/src/main/java/X.java, 'private final Ledger ledger;', 1",
        "docs/x.md, 'the Ledger', 0",
        "kernels/x.kernel, 'meet(q, k);', 1",
        "cpu/src/main/java/X.java, 'meet(q, k);', 0",
        "cpu/src/main/java/X.java, '// Products of floats', 0",
        "docs/x.md, 'no word of the list, so nothing', 0"
    })
    void aDeniedWordIsFoundInTheFilesItIsDeniedIn(String file, String line, int expected) {
        assertThat(hits(file, line)).hasSize(expected);
    }

    private static List<String> hits(String file, String line) {
        List<String> hits = new ArrayList<>();
        for (String section : sections(file)) {
            String searched =
                    section.equals("text") ? line : NOT_CODE.matcher(line).replaceAll("");
            for (Rule rule : RULES.get(section)) {
                if (rule.pattern().matcher(searched).find()) {
                    hits.add(line.strip() + "  [" + rule.pattern() + "; write: " + rule.instead() + "]");
                }
            }
        }
        return hits;
    }

    private static List<String> sections(String file) {
        if (file.endsWith(".java")) {
            return List.of("text", "java");
        }
        return file.endsWith(".kernel") || file.endsWith(".prelude") ? List.of("text", "kernels") : List.of("text");
    }

    /** Main sources of all modules, launchers, scripts, and docs. */
    private static List<Path> files() throws IOException {
        List<Path> files = new ArrayList<>();
        for (Path top : list(ROOT)) {
            String name = top.getFileName().toString();
            if (Files.isRegularFile(top) && name.matches("README\\.md|CONTRIBUTING\\.md|starforge|dev")) {
                files.add(top);
            } else if (List.of("docs", "scripts", "configs", "examples", ".ci").contains(name)) {
                walk(top, files);
            } else if (Files.isDirectory(top.resolve("src").resolve("main"))) {
                walk(top.resolve("src").resolve("main"), files);
            }
        }
        assertThat(files).hasSizeGreaterThan(700);
        return files;
    }

    private static List<Path> list(Path folder) throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.sorted().toList();
        }
    }

    private static void walk(Path folder, List<Path> into) throws IOException {
        try (Stream<Path> entries = Files.walk(folder)) {
            entries.filter(Files::isRegularFile)
                    .filter(file -> file.toString()
                            .matches(".*\\.(java|kernel|prelude|cpp|js|mjs|py|sh|css|html|md|yaml)|.*/[\\w-]+"))
                    .filter(file -> !file.endsWith("LOG.md") && !file.toString().contains("/target/"))
                    .sorted()
                    .forEach(into::add);
        }
    }

    private static Map<String, List<Rule>> rules() {
        Map<String, List<Rule>> rules = new HashMap<>();
        String section = "";
        for (String line : denylist().lines().toList()) {
            if (line.startsWith("[")) {
                section = line.substring(1, line.length() - 1);
                rules.put(section, new ArrayList<>());
            } else if (!line.isBlank() && !line.startsWith("#")) {
                String[] cells = line.split("\\s+=>\\s+", 2);
                assertThat(cells).as(Arrays.toString(cells)).hasSize(2);
                rules.get(section).add(new Rule(Pattern.compile(cells[0]), cells[1]));
            }
        }
        return rules;
    }

    private static String denylist() {
        try (InputStream in = VocabularyTest.class.getResourceAsStream("denylist.txt")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
