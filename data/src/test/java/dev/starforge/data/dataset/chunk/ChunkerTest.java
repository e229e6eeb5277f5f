package dev.starforge.data.dataset.chunk;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.dataset.parse.Language;
import dev.starforge.data.dataset.parse.Outline;
import dev.starforge.data.git.FileChange;
import dev.starforge.data.git.FilePatch;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.eclipse.jgit.lib.ObjectId;
import org.junit.jupiter.api.Test;

final class ChunkerTest {
    private static final Pattern HUNK = Pattern.compile("@@ -(\\d+),(\\d+) \\+(\\d+),(\\d+) @@\n((?:[ +-][^\n]*\n)*)");

    private static List<Chunker.ChunkContent> parts(String before, String after, Outline now) {
        byte[] old = before.getBytes(UTF_8);
        byte[] fresh = after.getBytes(UTF_8);
        FileChange.Side side = new FileChange.Side("A.java".getBytes(UTF_8), 0100644, ObjectId.zeroId());
        List<FilePatch.LineEdit> edits = FilePatch.of(
                        new FileChange(FileChange.ChangeType.M, side, side, 0), old, fresh, path -> path)
                .changes();
        return new Chunker(old, fresh, Outline.NOTHING, now, edits).parts("A.java", "Change", Language.of("A.java"));
    }

    private static Outline functions(String text, String... names) {
        List<Outline.Symbol> symbols = new ArrayList<>();
        for (String name : names) {
            int from = text.indexOf("int " + name);
            int to = text.indexOf("}\n", from) + 1;
            symbols.add(new Outline.Symbol(Outline.SymbolKind.FUNCTION, name, from, to, from, -1));
        }
        return new Outline(symbols, true);
    }

    @Test
    void theLinesAroundAHunkDoNotShowWhatTheNextOneAdds() {
        String before = "first\nsecond\nthird\nfourth\n";
        String after = "first\nint a() {\n  1\n}\nint b() {\n  2\n}\nsecond\nthird\nint c() {\n  3\n}\nfourth\n";
        List<Chunker.ChunkContent> parts = parts(before, after, functions(after, "a", "b", "c"));
        assertThat(parts)
                .extracting(Chunker.ChunkContent::patch)
                .containsExactly(
                        "@@ -1,1 +1,4 @@\n first\n+int a() {\n+  1\n+}\n",
                        "@@ -2,2 +5,5 @@\n+int b() {\n+  2\n+}\n second\n third\n",
                        "@@ -2,3 +8,6 @@\n second\n third\n+int c() {\n+  3\n+}\n fourth\n");
    }

    @Test
    void nearChangesOfAChunkAreOneHunkAndAFileThatWasNotThereHasNoLines() {
        assertThat(parts("a\nb\nc\nd\ne\n", "A\nb\nc\nD\ne\n", Outline.NOTHING))
                .extracting(Chunker.ChunkContent::patch)
                .containsExactly("@@ -1,5 +1,5 @@\n-a\n+A\n b\n c\n-d\n+D\n e\n");
        assertThat(parts("", "a\nb\n", Outline.NOTHING))
                .extracting(Chunker.ChunkContent::patch)
                .containsExactly("@@ -0,0 +1,2 @@\n+a\n+b\n");
    }

    @Test
    void importsInARowAreOneChange() {
        String imports = "import a.One;\nimport a.Two;\nimport a.Three;\n";
        List<Outline.Symbol> symbols = new ArrayList<>();
        for (int from = 0; from < imports.length(); from = imports.indexOf('\n', from) + 1) {
            symbols.add(new Outline.Symbol(Outline.SymbolKind.IMPORT, "", from, imports.indexOf('\n', from), from, -1));
        }
        List<Chunker.ChunkContent> parts = parts("class A {}\n", imports + "class A {}\n", new Outline(symbols, true));
        assertThat(parts).hasSize(1);
        assertThat(parts.getFirst().changed()).containsExactly(new CodeChunk.LineRange(0, 3));
        assertThat(parts.getFirst().patch())
                .isEqualTo("@@ -1,1 +1,4 @@\n+import a.One;\n+import a.Two;\n+import a.Three;\n class A {}\n");
    }

    /** All hunks of all chunks, one after another, make the new file of the old one. */
    @Test
    void theHunksOfAllChunksAreTheChange() {
        SplittableRandom random = new SplittableRandom(5);
        for (int round = 0; round < 200; round++) {
            List<String> old = new ArrayList<>();
            List<String> fresh = new ArrayList<>();
            for (int line = 0; line < 40; line++) {
                String text = "line " + random.nextInt(30);
                int fate = random.nextInt(8);
                if (fate != 0) {
                    old.add(text);
                }
                if (fate != 1) {
                    fresh.add(fate == 2 ? "other " + line : text);
                }
            }
            String after = String.join("\n", fresh) + "\n";
            List<Chunker.ChunkContent> parts = parts(String.join("\n", old) + "\n", after, Outline.NOTHING);
            assertThat(applied(old, parts)).as("round %d", round).isEqualTo(fresh);
        }
    }

    private static List<String> applied(List<String> old, List<Chunker.ChunkContent> parts) {
        List<MatchResult> hunks = parts.stream()
                .flatMap(part -> HUNK.matcher(part.patch()).results())
                .sorted(Comparator.comparingInt(hunk -> Integer.parseInt(hunk.group(3))))
                .toList();
        List<String> result = new ArrayList<>();
        int at = 0;
        for (MatchResult hunk : hunks) {
            int count = Integer.parseInt(hunk.group(2));
            int from = Integer.parseInt(hunk.group(1)) - Math.min(1, count);
            for (String line : hunk.group(5).split("\n")) {
                String text = line.substring(1);
                for (; at < from; at++) {
                    result.add(old.get(at));
                }
                if (line.charAt(0) == '+') {
                    result.add(text);
                    continue;
                }
                assertThat(old.get(from)).isEqualTo(text);
                if (from++ == at) { // else the hunk before has shown it
                    at++;
                    if (line.charAt(0) == ' ') {
                        result.add(text);
                    }
                }
            }
        }
        result.addAll(old.subList(at, old.size()));
        return result;
    }
}
