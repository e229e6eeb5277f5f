package dev.starforge.model.convert;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A file that was begun is gone on with, and is the file that one process would have written. */
final class ResumableGgufWriterTest {
    private static final int TENSORS = 5;
    private static final Map<String, GgufValue> METADATA =
            Map.of("general.architecture", GgufValue.string("starcoder2"));

    @TempDir
    Path folder;

    /** The names of tensors as they are written. */
    private final List<String> written = new ArrayList<>();

    private static final class Killed extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private List<String> write(Path out, String inputs, int killedAt, long betweenSyncs) {
        List<GgufWriter.GgufEntry> entries = new ArrayList<>();
        for (int i = 0; i < TENSORS; i++) {
            int number = i;
            GgufWriter.GgufEntry made =
                    GgufWriter.GgufEntry.of("t" + i, BlockFormat.F32, Shape.of(3, 7), (first, values, count) -> {
                        for (int at = 0; at < count; at++) {
                            values[at] = number + (first + at) / 100f;
                        }
                    });
            entries.add(new GgufWriter.GgufEntry(made.name(), made.format(), made.shape(), to -> {
                made.body().write(to);
                if (number == killedAt) {
                    throw new Killed();
                }
                written.add(made.name());
            }));
        }
        return new ResumableGgufWriter(out, METADATA, entries, inputs, betweenSyncs)
                .write(entry -> "line of " + entry.name(), (name, done, total) -> {});
    }

    private static Path beside(Path out, String ending) {
        return out.resolveSibling(out.getFileName() + ending);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3, 4})
    void tensorsOnDiskAreNotWrittenAgain(int killedAt) throws IOException {
        Path whole = folder.resolve("whole.gguf");
        List<String> lines = write(whole, "a", -1, 0);
        assertThat(lines).hasSize(TENSORS).startsWith("line of t0");
        Path out = folder.resolve("out.gguf");
        assertThatThrownBy(() -> write(out, "a", killedAt, 0)).isInstanceOf(Killed.class);
        assertThat(out).doesNotExist();
        written.clear();
        assertThat(write(out, "a", -1, 0)).isEqualTo(lines);
        assertThat(written).hasSize(TENSORS - killedAt);
        assertThat(out).hasSameBinaryContentAs(whole);
        assertThat(beside(out, ".incomplete")).doesNotExist();
        assertThat(beside(out, ".incomplete.journal")).doesNotExist();
        try (GgufFile file = GgufFile.open(out)) {
            assertThat(file.readFloats("t3")[8]).isEqualTo(3.08f);
        }
    }

    @Test
    void anIncompleteJournalLineIsIgnored() throws IOException {
        Path out = folder.resolve("out.gguf");
        assertThatThrownBy(() -> write(out, "a", 2, 0)).isInstanceOf(Killed.class);
        Files.writeString(beside(out, ".incomplete.journal"), "line of t", StandardOpenOption.APPEND);
        written.clear();
        assertThat(write(out, "a", -1, 0))
                .containsExactly("line of t0", "line of t1", "line of t2", "line of t3", "line of t4");
        assertThat(written).containsExactly("t2", "t3", "t4");
    }

    @Test
    void changedInputsStartOver() {
        Path out = folder.resolve("out.gguf");
        assertThatThrownBy(() -> write(out, "a", 3, 0)).isInstanceOf(Killed.class);
        written.clear();
        write(out, "b", -1, 0);
        assertThat(written).hasSize(TENSORS);
    }

    @Test
    void aJournalBeyondTheDataIsDiscarded() throws IOException {
        Path out = folder.resolve("out.gguf");
        assertThatThrownBy(() -> write(out, "a", 3, 0)).isInstanceOf(Killed.class);
        Files.write(beside(out, ".incomplete"), new byte[10]);
        written.clear();
        write(out, "a", -1, 0);
        assertThat(written).hasSize(TENSORS);
    }

    @Test
    void unsyncedTensorsAreWrittenAgain() {
        Path out = folder.resolve("out.gguf");
        assertThatThrownBy(() -> write(out, "a", 3, Long.MAX_VALUE)).isInstanceOf(Killed.class);
        written.clear();
        write(out, "a", -1, 0);
        assertThat(written).hasSize(TENSORS);
    }
}
