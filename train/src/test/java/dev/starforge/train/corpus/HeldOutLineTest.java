package dev.starforge.train.corpus;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenDocuments;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class HeldOutLineTest {
    private static final Tokenizer TOKENIZER =
            Tokenizer.read(Path.of("..", "golden", "tokenizers", "starcoder2", "tokenizer.json"));
    private static final String CODE = "use std::fs;\nuse std::io;\nuse std::env;\nuse std::path;\n";

    private static int[] chunk(String prefix, String middle, String suffix) {
        int[] around = FillInMiddle.of(TOKENIZER, Path.of("model"))
                .prompt(prefix, suffix, false)
                .ids();
        return IntStream.concat(Arrays.stream(around), Arrays.stream(TOKENIZER.encode(middle, false)))
                .toArray();
    }

    private static List<HeldOutLine> lines(int count, int[]... documents) {
        return HeldOutLine.first(new InMemory(documents), TOKENIZER, count);
    }

    private record InMemory(int[]... documents) implements TokenDocuments {
        @Override
        public int count() {
            return documents.length;
        }

        @Override
        public int length(int document) {
            return documents[document].length;
        }

        @Override
        public TokenDocument read(int document) {
            int[] ids = documents[document];
            boolean[] counted = new boolean[ids.length];
            Arrays.fill(counted, true);
            return new TokenDocument("chunk-" + document, ids, counted);
        }

        @Override
        public long tokens() {
            return 0;
        }

        @Override
        public void close() {}
    }

    /** Neither the description of a commit, nor its licence, nor a comment, nor an open block; each file and line once. */
    @Test
    void theFirstLinesThatEndAStatement() {
        int[] commit = TOKENIZER.encode("<pr>Title: let x = f(a);<pr_diff>\n+let found = scan(path);\n", false);
        int[] licence = chunk("src/a.rs\n" + CODE, "// Copyright (c) 2026\nlet licence = read(\"LICENSE\");\n", "\n");
        int[] comment = chunk("src/b.rs\n" + CODE + "/*\n", "call this (it is needed) with x = 1\n", "*/\n");
        int[] block = chunk("src/c.rs\n" + CODE, "fn scan(path: &Path) -> Vec<Entry> {\n", "}\n");
        int[] first = chunk(
                "src/d.rs\n" + CODE,
                "    // all of them\n    let entries = scan(&root, depth);\n    drop(root);\n",
                "}\n");
        int[] again = chunk("src/d.rs\n" + CODE, "    let other = read_all(&root, 5);\n", "}\n");
        int[] same = chunk("src/e.rs\n" + CODE, "    let entries = scan(&root, depth);\n", "}\n");
        int[] second = chunk("src/f.rs\n" + CODE, "    self.count += entries.len();\n", "}\n");
        List<HeldOutLine> found = lines(3, commit, licence, comment, block, first, again, same, second);
        assertThat(found).extracting(HeldOutLine::path).containsExactly("src/d.rs", "src/f.rs");
        assertThat(found.getFirst().before()).isEqualTo(CODE + "    // all of them\n    let entries");
        assertThat(found.getFirst().added()).isEqualTo(" = scan(&root, depth);");
        assertThat(found.getFirst().after()).isEqualTo("\n    drop(root);\n}");
        assertThat(lines(1, first, second)).hasSize(1);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "x = 1",
                "def scan(path, depth):",
                "if (found == expected) {",
                "int total = first +",
                "foo(first, second,",
                "'\\u{00AD}' // soft hyphen (invisible)",
                "# a = comment(of python)",
                "Permission is granted (see LICENSE) x = y",
                "    }"
            })
    void otherLinesDoNot(String line) {
        assertThat(HeldOutLine.endsStatement(line)).isFalse();
    }
}
