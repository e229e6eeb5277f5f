package dev.starforge.data.dataset.parse;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.dataset.Builds;
import dev.starforge.data.dataset.DatasetBuilder;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Parsing a large file part by part finds the same declarations as parsing it whole. */
final class TopLevelSplitterTest {
    private static final int FUNCTIONS = 400;

    @TempDir
    Path folder;

    /** A file of many functions; {@code %} is the number of each. */
    private record Source(String path, String head, String function, String tail) {
        byte[] text(int changed) {
            StringBuilder text = new StringBuilder(head);
            for (int i = 0; i < FUNCTIONS; i++) {
                text.append((i == changed ? function.replace("1", "2 + 2") : function).replace("%", String.valueOf(i)));
            }
            return text.append(tail).toString().getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String toString() {
            return path;
        }
    }

    static Stream<Source> sources() {
        return Stream.of(
                new Source(
                        "a.cpp",
                        "#include <a>\n\nnamespace n {\n\n#ifdef A\n\n",
                        "/* { */ static int f%(int a) {\n#if B\n    a++;\n#else\n    a--;\n#endif\n"
                                + "    return '{' + L'{' + \"}\\\"\"[1] + R\"x(}\")x\"[0];\n\n    return 1'000;\n}\n\n",
                        "#endif\n\n}\n"),
                new Source(
                        "a.c",
                        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                        "#define M% { \\\n"
                                + "    (\n\n"
                                + "struct s% {\n"
                                + "    int a;\n"
                                + "};\n\n"
                                + "struct s% * f%(int a) {\n"
                                + "    return a + 1;\n"
                                + "}\n\n",
                        "#ifdef __cplusplus\n}\n#endif\n"),
                new Source(
                        "A.java",
                        "package p;\n\nimport a.B;\n\n/** A class. {@code {} */\npublic final class A<T> extends B {\n",
                        "    @Test\n"
                                + "    int f%(int a) {\n"
                                + "        String s = \"\"\"\n"
                                + "            }}}\n"
                                + "            \"\"\";\n\n"
                                + "        return '}' + 1; // }\n"
                                + "    }\n\n",
                        "}\n"),
                new Source(
                        "a.py",
                        "import a\n\n",
                        "@d\n"
                                + "def f%(x):\n"
                                + "    '''Has (\n\n"
                                + "no end.'''\n"
                                + "    return [\n\n"
                                + "1, x]  # (\n\n\n"
                                + "class C%:\n"
                                + "    def g(self):\n"
                                + "        pass\n\n\n",
                        ""),
                new Source(
                        "a.rs",
                        "use a::b;\n\nimpl<'a> S<'a> {\n",
                        "    fn f%(&'a self) -> u8 {\n        let s = r#\"}\"#;\n        b'{' as u8 + 1\n    }\n\n",
                        "}\n"),
                new Source(
                        "a.go",
                        "package p\n\n",
                        "func F%(a int) int {\n\ts := `}\n\n{`\n\treturn a + '{' + 1\n}\n\n",
                        ""),
                new Source(
                        "a.ts",
                        "import { a } from 'b';\n\nexport class A extends B {\n",
                        "    f%(a: string): number {\n"
                                + "        const t = `x ${ { a: `}` }.a } {`;\n\n"
                                + "        return t.replace(/[/{]\\/\"/, '').length + 1;\n"
                                + "    }\n\n",
                        "}\n"),
                new Source(
                        "a.js",
                        "'use strict';\n\n",
                        "function f%(a) {\n"
                                + "    return a / 1 / 2;\n"
                                + "}\n\n"
                                + "const g% = async () => {\n"
                                + "    await f%('{');\n"
                                + "};\n\n",
                        ""));
    }

    private static List<String> names(Outline outline) {
        return outline.symbols().stream()
                .map(symbol -> symbol.kind() + " " + outline.qualifiedName(symbol) + " " + symbol.from() + " "
                        + symbol.to() + " " + symbol.body())
                .toList();
    }

    @ParameterizedTest
    @MethodSource("sources")
    void partsHaveTheDeclarationsOfTheWholeFile(Source source) throws IOException {
        Files.createDirectories(DatasetBuilder.parserFolder(folder));
        byte[] text = source.text(-1);
        Language language = Language.of(source.path);
        assertThat(TopLevelSplitter.parts(text, language.grammar())).hasSizeGreaterThan(10);
        try (ParserPool pool = new ParserPool(Builds.parsers(folder), 1, Duration.ofSeconds(20))) {
            Outline found = pool.outline(ObjectId.zeroId(), language, text);
            assertThat(pool.guessed()).isZero();
            assertThat(found.symbols().stream().filter(symbol -> symbol.kind() == Outline.SymbolKind.FUNCTION))
                    .hasSizeGreaterThanOrEqualTo(FUNCTIONS);
            assertThat(names(found)).isEqualTo(names(pool.ask(language.grammar(), text)));
        }
    }

    @ParameterizedTest
    @MethodSource("sources")
    void theNextVersionOfAFileReusesMostParts(Source source) {
        String grammar = Language.of(source.path).grammar();
        byte[] before = source.text(-1);
        byte[] after = source.text(FUNCTIONS / 3);
        Set<String> known = new HashSet<>(texts(before, grammar));
        List<String> fresh = new ArrayList<>(texts(after, grammar));
        assertThat(fresh).hasSizeGreaterThan(10);
        fresh.removeAll(known);
        assertThat(fresh).hasSize(1);
    }

    private static List<String> texts(byte[] text, String grammar) {
        return TopLevelSplitter.parts(text, grammar).stream()
                .map(part -> new String(part.text(text), StandardCharsets.UTF_8))
                .toList();
    }

    /** The same on real code: the largest sources of this module and of text. */
    @Test
    void splitsTheProjectsOwnSources() throws IOException {
        Files.createDirectories(DatasetBuilder.parserFolder(folder));
        List<Path> sources;
        try (Stream<Path> own = Files.walk(Path.of("src"));
                Stream<Path> text = Files.walk(Path.of("../text/src"))) {
            sources = Stream.concat(own, text)
                    .filter(file ->
                            file.toString().endsWith(".java") && file.toFile().length() > 12_000)
                    .toList();
        }
        assertThat(sources).hasSizeGreaterThan(20);
        try (ParserPool pool = new ParserPool(Builds.parsers(folder), 1, Duration.ofSeconds(20))) {
            for (Path source : sources) {
                byte[] text = Files.readAllBytes(source);
                assertThat(names(pool.parse("java", "java", text)))
                        .as(source.toString())
                        .isEqualTo(names(pool.ask("java", text)));
            }
        }
    }

    @Test
    void aFunctionWithTwoHeadsEnds() {
        byte[] text = "#if A\nint f(int a) {\n#else\nint f() {\n#endif\n    return 1;\n}\n\n"
                .repeat(1000)
                .getBytes(StandardCharsets.UTF_8);
        assertThat(TopLevelSplitter.parts(text, "c")).hasSize(1000);
    }

    @Test
    void windowsLineEndingsAreSupported() {
        String code = "#define M(x) do { \\\r\n    x; \\\r\n  (\r\n\r\nint f(int a) {\r\n    return a;\r\n}\r\n\r\n";
        byte[] text = code.repeat(500).getBytes(StandardCharsets.UTF_8);
        assertThat(TopLevelSplitter.parts(text, "c")).hasSize(1000);
    }

    @Test
    void unbalancedFilesAreNotSplit() {
        byte[] text = ("void f() {\n\n".repeat(2000)).getBytes(StandardCharsets.UTF_8);
        assertThat(TopLevelSplitter.parts(text, "c"))
                .containsExactly(new TopLevelSplitter.FilePart(0, text.length, "", "", -1, -1));
    }
}
