package dev.starforge.data.dataset.parse;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.dataset.Builds;
import dev.starforge.data.dataset.DatasetBuilder;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What grammars find; and what happens when a child does not survive a file. */
final class ParserPoolTest {
    @TempDir
    Path folder;

    private ParserPool pool() throws IOException {
        Files.createDirectories(DatasetBuilder.parserFolder(folder));
        return new ParserPool(Builds.parsers(folder), 1, Duration.ofSeconds(20));
    }

    private static Outline outline(ParserPool pool, String path, String code) {
        byte[] bytes = code.getBytes(StandardCharsets.UTF_8);
        return pool.outline(ObjectId.zeroId(), Language.of(path), bytes);
    }

    private static List<String> names(Outline outline) {
        return outline.symbols().stream()
                .filter(symbol ->
                        symbol.kind() == Outline.SymbolKind.TYPE || symbol.kind() == Outline.SymbolKind.FUNCTION)
                .map(outline::qualifiedName)
                .toList();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "a.java | import a.B; class A { int f(int x) { return x; } } | A,A.f",
                "a.py | @d~def f(x):~    return x~class C:~    def g(self): pass | f,C,C.g",
                "a.rs | struct S { a: u8 } impl S { fn f(&self) -> u8 { self.a } } fn g() {} | S,S,S.f,g",
                "a.go | package p~func F(a int) int { return a }~type T struct { x int } | F,T",
                "a.c | #include <a.h>~struct s { int a; };~static int *f(int a) { return 0; } | s,f",
                "a.cpp | namespace n { class C { void f() {} }; } | n,n.C,n.C.f",
                "a.js | import x from 'y'; function f() {} const g = () => { return 1 }; class C { m() {} } |"
                        + " f,g,C,C.m",
                "a.ts | interface I { a: string } export function f(a: I): void {} | I,f",
                "a.kt | fun f(x: Int) {~    return x~}~class C {~    fun g() {}~} | f,C",
            })
    void findsDeclarations(String path, String code, String expected) throws IOException {
        try (ParserPool pool = pool()) {
            Outline outline = outline(pool, path, code.replace('~', '\n'));
            assertThat(names(outline)).containsExactly(expected.split(","));
            assertThat(outline.parsed()).isEqualTo(!path.endsWith(".kt"));
            assertThat(pool.guessed()).isZero();
        }
    }

    @Test
    void returnsStatementsOnRequestAndDeclarationsAlways() throws IOException {
        String code = "class A { void f() { int x = 1; class B { void g() { return; } } x++; } }";
        try (ParserPool pool = pool()) {
            assertThat(kinds(outline(pool, "A.java", code)))
                    .containsExactly("TYPE A", "FUNCTION f", "TYPE B", "FUNCTION g");
            Outline all = pool.outlineWithBlocks(
                    ObjectId.zeroId(), Language.of("A.java"), code.getBytes(StandardCharsets.UTF_8));
            assertThat(kinds(all))
                    .containsExactly("TYPE A", "FUNCTION f", "BLOCK ", "TYPE B", "FUNCTION g", "BLOCK ", "BLOCK ");
            Outline.Symbol last = all.symbols().getLast();
            assertThat(code.substring(last.from(), last.to())).isEqualTo("x++;");
            assertThat(all.symbols().get(last.parent()).name()).isEqualTo("f");
        }
    }

    private static List<String> kinds(Outline outline) {
        return outline.symbols().stream()
                .map(symbol -> symbol.kind() + " " + symbol.name())
                .toList();
    }

    @Test
    void bytesAreBytesAfterOtherAlphabets() throws IOException {
        try (ParserPool pool = pool()) {
            String code = "// äöü 漢字 🙂\nclass A {\n  void f() {}\n}\n";
            Outline outline = outline(pool, "A.java", code);
            Outline.Symbol f = outline.symbols().get(1);
            byte[] bytes = code.getBytes(StandardCharsets.UTF_8);
            assertThat(new String(bytes, f.from(), f.to() - f.from(), StandardCharsets.UTF_8))
                    .isEqualTo("void f() {}");
        }
    }

    @Test
    void aDeadOrSilentChildCostsOneFile() {
        for (List<String> command : List.of(List.of("false"), List.of("sleep", "60"), List.of("/no/such/program"))) {
            try (ParserPool pool =
                    new ParserPool(() -> new ProcessBuilder(command).start(), 1, Duration.ofMillis(300))) {
                Outline outline = outline(pool, "A.java", "class A {\n  void f() {}\n}\n");
                assertThat(outline.parsed()).isFalse();
                assertThat(names(outline)).containsExactly("A");
                assertThat(pool.guessed()).isEqualTo(1);
                assertThat(pool.parsed()).isZero();
            }
        }
    }

    @Test
    void theSameBytesAreAnotherOutlineInAnotherLanguage() throws IOException {
        try (ParserPool pool = pool()) {
            String code = "namespace n { class C { void f() {} }; }";
            outline(pool, "a.h", code);
            assertThat(names(outline(pool, "a.cpp", code))).containsExactly("n", "n.C", "n.C.f");
            assertThat(pool.parsed()).isEqualTo(2);
        }
    }
}
