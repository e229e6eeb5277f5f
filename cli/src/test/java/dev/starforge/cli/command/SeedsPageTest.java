package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Holds docs/seeds.md to its word: every name has a row, every row one of three answers, and every test that it names exists. */
final class SeedsPageTest {
    private static final Path ROOT = Path.of("..");
    private static final Path PAGE = ROOT.resolve(Path.of("docs", "seeds.md"));
    private static final Pattern TEST = Pattern.compile("`(\\w+)(?:#(\\w+))?`");

    private record Row(String names, String answer, String reason, String test) {}

    private static List<Row> rows() throws IOException {
        List<Row> rows = new ArrayList<>();
        for (String line : Files.readAllLines(PAGE)) {
            if (line.startsWith("| ") && !line.startsWith("| name ")) {
                String[] cells = line.substring(2, line.length() - 2).split(" \\| ", -1);
                assertThat(cells).as(line).hasSize(5);
                rows.add(new Row(cells[0], cells[2], cells[3], cells[4]));
            }
        }
        return rows;
    }

    /** The sources of all tests of all modules, by class. */
    private static Map<String, String> tests() throws IOException {
        Map<String, String> tests = new HashMap<>();
        try (Stream<Path> modules = Files.list(ROOT)) {
            for (Path module : modules.map(each -> each.resolve(Path.of("src", "test", "java")))
                    .filter(Files::isDirectory)
                    .toList()) {
                try (Stream<Path> files = Files.walk(module)) {
                    for (Path file : files.filter(each -> each.toString().endsWith("Test.java"))
                            .toList()) {
                        tests.put(file.getFileName().toString().replace(".java", ""), Files.readString(file));
                    }
                }
            }
        }
        return tests;
    }

    @Test
    void everyTestThatIsNamedExists() throws IOException {
        Map<String, String> tests = tests();
        for (Row row : rows()) {
            Matcher named = TEST.matcher(row.test());
            assertThat(named.matches())
                    .as("test of %s: %s", row.names(), row.test())
                    .isTrue();
            assertThat(tests).as(row.names()).containsKey(named.group(1));
            if (named.group(2) != null) {
                assertThat(tests.getOrDefault(named.group(1), ""))
                        .as("%s of %s", row.test(), row.names())
                        .containsPattern("void " + named.group(2) + "\\(");
            }
        }
    }

    @Test
    void everyRowHasAnAnswerAndAReason() throws IOException {
        assertThat(rows()).hasSizeGreaterThan(120).allSatisfy(row -> {
            assertThat(Set.of("honoured", "alias", "rejected")).as(row.names()).contains(row.answer());
            assertThat(row.reason()).as(row.names()).isNotBlank();
        });
    }

    /** Flags, keys, classes, variables and files of the five documents, collected from them by pattern and read through. */
    @Test
    void everyNameHasARow() throws IOException {
        String names = String.join("\n", rows().stream().map(Row::names).toList());
        try (Stream<String> expected = Files.lines(Path.of("src", "test", "resources", "first-design-names.txt"))) {
            assertThat(expected.filter(name -> !names.contains(name))).isEmpty();
        }
    }
}
