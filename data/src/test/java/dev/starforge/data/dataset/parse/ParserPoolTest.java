package dev.starforge.data.dataset.parse;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.data.dataset.Builds;
import dev.starforge.data.dataset.DatasetBuilder;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
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

    @ParameterizedTest
    @CsvSource({
        "false, fails on an empty file",
        "sleep 60, fails on an empty file",
        "/no/such/program, fails on an empty file: Cannot run program",
        "ls /no/such/folder, 'fails on an empty file: ls: '",
    })
    void aParserThatCannotRunIsAnError(String command, String message) {
        List<String> words = List.of(command.split(" "));
        try (ParserPool pool = new ParserPool(() -> new ProcessBuilder(words).start(), 1, Duration.ofMillis(300))) {
            assertThatThrownBy(() -> outline(pool, "A.java", "class A {\n  void f() {}\n}\n"))
                    .isInstanceOf(ParserException.class)
                    .hasMessageContaining("the parser for java " + message);
        }
    }

    @Test
    void aFileThatCrashesTheParserIsSplitWithoutIt() {
        AtomicInteger started = new AtomicInteger();
        ParserStarter starter = () -> {
            started.incrementAndGet();
            return new ProcessThatCrashesOn("crash");
        };
        try (ParserPool pool = new ParserPool(starter, 1, Duration.ofSeconds(20))) {
            Outline outline = outline(pool, "A.java", "class A {\n  void crash() {}\n}\n");
            assertThat(outline.parsed()).isFalse();
            assertThat(names(outline)).containsExactly("A");
            assertThat(pool.guessed()).isEqualTo(1);
            assertThat(pool.parsed()).isZero();
            assertThat(pool.ask("java", "class B {}".getBytes(StandardCharsets.UTF_8))
                            .parsed())
                    .isTrue();
            assertThat(started).as("one before and one after the crash").hasValue(2);
        }
    }

    /** A parser in this process that finds no symbols, and ends when a file contains a word. */
    private static final class ProcessThatCrashesOn extends Process {
        private final PipedOutputStream requests = new PipedOutputStream();
        private final PipedInputStream responses = new PipedInputStream();
        private final Thread server;

        ProcessThatCrashesOn(String word) throws IOException {
            DataInputStream in = new DataInputStream(new PipedInputStream(requests));
            DataOutputStream out = new DataOutputStream(new PipedOutputStream(responses));
            server = Thread.ofVirtual().start(() -> {
                try (in;
                        out) {
                    while (true) {
                        in.readNBytes(in.readInt());
                        if (new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8).contains(word)) {
                            return;
                        }
                        out.writeInt(0);
                        out.flush();
                    }
                } catch (IOException closed) {
                    // destroyed
                }
            });
        }

        @Override
        public OutputStream getOutputStream() {
            return requests;
        }

        @Override
        public InputStream getInputStream() {
            return responses;
        }

        @Override
        public InputStream getErrorStream() {
            return InputStream.nullInputStream();
        }

        @Override
        public int waitFor() throws InterruptedException {
            server.join();
            return 1;
        }

        @Override
        public int exitValue() {
            if (server.isAlive()) {
                throw new IllegalThreadStateException();
            }
            return 1;
        }

        @Override
        public void destroy() {
            try {
                requests.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
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
