package dev.starforge.cli.hub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Models by their names. */
final class ModelStoreTest {
    private static final String COMMIT = "0123456789abcdef0123456789abcdef01234567";

    @TempDir
    Path folder;

    private ModelStore store;
    private Path cache;

    @BeforeEach
    void fill() throws IOException {
        cache = folder.resolve("hub");
        store = new ModelStore(folder.resolve("models"), List.of(folder.resolve("none"), cache));
        write("models/a/folder/config.json");
        write("models/a/folder@v2/config.json");
        write("models/a/file/only.gguf");
        write("models/b/begun/model.safetensors.0123.incomplete");
        write("models/tuned.gguf");
        write("models/mine/config.json");
        write("hub/models--c--cached/snapshots/" + COMMIT + "/config.json");
        write("outside/config.json");
        Files.createDirectories(folder.resolve("hub/models--c--cached/refs"));
        Files.writeString(folder.resolve("hub/models--c--cached/refs/main"), COMMIT + "\n");
    }

    private void write(String name) throws IOException {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, "12345");
    }

    @Test
    void namesAreFound() {
        Path snapshot = cache.resolve("models--c--cached/snapshots/" + COMMIT);
        assertThat(store.find("a/folder")).contains(store.root().resolve("a/folder"));
        assertThat(store.find("a/folder@v2")).contains(store.root().resolve("a/folder@v2"));
        assertThat(store.find("a/file")).contains(store.root().resolve("a/file/only.gguf"));
        assertThat(store.find("tuned")).contains(store.root().resolve("tuned.gguf"));
        assertThat(store.find("mine")).contains(store.root().resolve("mine"));
        assertThat(store.find("c/cached")).contains(snapshot);
        assertThat(store.find("c/cached@" + COMMIT)).contains(snapshot);
        assertThat(store.find("c/cached@v9")).isEmpty();
        assertThat(store.find("nobody/nothing")).isEmpty();
        assertThat(store.places("c/cached"))
                .containsExactly(
                        store.root().resolve("c/cached"),
                        folder.resolve("none/models--c--cached"),
                        cache.resolve("models--c--cached"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"../outside", "a/../../outside", "", ".", "a/..", "a/folder/config.json"})
    void namesStayInTheStore(String name) {
        assertThat(store.find(name)).isEmpty();
        assertThatThrownBy(() -> store.remove(name)).hasMessageContaining("model not found");
        assertThat(folder.resolve("outside/config.json")).exists();
    }

    @Test
    void allAreListedAndRemovedByTheirNames() throws IOException {
        assertThat(store.list().stream().map(ModelStore.Kept::name))
                .containsExactly("a/file", "a/folder", "a/folder@v2", "b/begun", "mine", "tuned.gguf");
        assertThat(store.list().stream().filter(each -> !each.complete()).map(ModelStore.Kept::name))
                .containsExactly("b/begun");
        assertThat(store.remove("b/begun")).isEqualTo(5);
        assertThat(store.root().resolve("b")).doesNotExist();
        store.remove("a/folder");
        assertThat(store.root().resolve("a/file/only.gguf")).exists();
        store.remove("tuned");
        assertThat(store.list()).hasSize(3);
    }
}
