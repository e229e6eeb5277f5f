package dev.starforge.text.file;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class GitIgnoreTest {
    @TempDir
    Path folder;

    private Path made(String name) throws IOException {
        return Files.createDirectories(folder.resolve(name));
    }

    @Test
    void aFolderInAWorkTreeIsIgnored() throws IOException {
        made("repository/.git");
        Path data = made("repository/out/data");
        assertThat(GitIgnore.write(data)).isTrue();
        assertThat(data.resolve(".gitignore")).hasContent("*\n");
        assertThat(GitIgnore.write(data)).isFalse();
        assertThat(GitIgnore.write(made("repository/out/data/run")))
                .as("ignored with the folder above")
                .isFalse();
    }

    @Test
    void otherFoldersAreLeftAlone() throws IOException {
        assertThat(GitIgnore.write(made("data"))).isFalse();
        Path repository = made("repository/.git").getParent();
        assertThat(GitIgnore.write(repository)).as("the work tree itself").isFalse();
        Path own = made("repository/own");
        Files.writeString(own.resolve(".gitignore"), "*.tmp\n");
        assertThat(GitIgnore.write(own)).isFalse();
        assertThat(own.resolve(".gitignore")).hasContent("*.tmp\n");
        Files.writeString(made("worktree").resolve(".git"), "gitdir: elsewhere\n");
        assertThat(GitIgnore.write(made("worktree/data")))
                .as("a linked work tree")
                .isTrue();
    }
}
