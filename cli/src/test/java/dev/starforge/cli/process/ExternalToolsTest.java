package dev.starforge.cli.process;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class ExternalToolsTest {
    @Test
    void aCompressorsBytesAreCounted() throws IOException {
        byte[] text = "abc".repeat(100_000).getBytes(StandardCharsets.UTF_8);
        try (ExternalTools tools = new ExternalTools(List.of("cat"))) {
            assertThat(tools.xz(text)).hasValue(300_000);
        }
    }

    @Test
    void aCompressorThatIsMissingOrFailsAnswersNothing() throws IOException {
        byte[] text = new byte[1 << 20];
        for (List<String> command : List.of(List.of("no-such-program-here"), List.of("false"))) {
            try (ExternalTools tools = new ExternalTools(command)) {
                assertThat(tools.xz(text)).isEmpty();
            }
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "java       | class A { int f() { return 1; } }    | true",
                "java       | class A { int f() { return ; ; } } } | false",
                "python     | def f(x): return x                   | true",
                "python     | def f(x: return x                    | false",
                "rust       | fn f() -> i32 { 1 }                  | true",
                "go         | package main                         | true",
                "c          | int f(void) { return 1; }            | true",
                "cpp        | class A { public: int x; };          | true",
                "javascript | const f = (x) => x + 1;              | true",
                "typescript | let x: number = ;                    | false",
            })
    void grammarsTellWhatFits(String grammar, String text, boolean fits) throws IOException {
        try (ExternalTools tools = new ExternalTools()) {
            assertThat(tools.errors(grammar, text).orElseThrow() == 0).isEqualTo(fits);
            assertThat(tools.errors("cobol", text)).isEmpty();
        }
    }
}
