package dev.starforge.data.git;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

final class GitPathTest {
    @Test
    void isQuotedAsGitDoes() {
        String raw = GitPath.raw("\u00fcber \"x\"\t.md".getBytes(UTF_8));
        assertThat(GitPath.inPatch("a/", raw)).isEqualTo("\"a/\\303\\274ber \\\"x\\\"\\t.md\"");
        assertThat(GitPath.inPatch("a/", "plain name.md")).isEqualTo("a/plain name.md");
        assertThat(GitPath.text(new byte[] {'x', (byte) 0xff, 0x7f})).isEqualTo("\"x\\377\\177\"");
    }
}
