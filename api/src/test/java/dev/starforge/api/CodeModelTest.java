package dev.starforge.api;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CodeModelTest {
    private static final Path GOLDEN = Path.of("..", "golden", "models", "starcoder2");

    @TempDir
    Path folder;

    @Test
    void streamedTextEqualsTheReturnedText() {
        try (Starforge starforge = Starforge.open("cpu", folder);
                CodeModel model = starforge.load(GOLDEN)) {
            StringBuilder heard = new StringBuilder();
            GenerationConfig drawn = GenerationConfig.sampled(24, 0.8, 7);
            Completion streamed = model.complete("def f(x):", drawn, piece -> {
                heard.append(piece);
                return true;
            });
            assertThat(heard.toString()).isEqualTo(streamed.text()).isNotEmpty();
            assertThat(streamed).isEqualTo(model.complete("def f(x):", drawn));
            assertThat(streamed.promptTokens()).isEqualTo(model.tokens("def f(x):"));
            assertThat(model.complete("def f(x):", GenerationConfig.sampled(24, 0.8, 8))
                            .text())
                    .isNotEqualTo(streamed.text());

            String stop = streamed.text().substring(2, 4);
            Completion stopped = model.complete("def f(x):", drawn.withStopStrings(stop));
            assertThat(stopped.endReason()).isEqualTo(Completion.EndReason.STOP_STRING);
            assertThat(stopped.text())
                    .isEqualTo(streamed.text().substring(0, streamed.text().indexOf(stop)));

            Completion left = model.complete("def f(x):", drawn, piece -> false);
            assertThat(left.endReason()).isEqualTo(Completion.EndReason.CANCELLED);
            assertThat(left.tokens()).isLessThan(streamed.tokens());
        }
    }

    @Test
    void fillsInTheMiddle() {
        try (Starforge starforge = Starforge.open("cpu", folder);
                CodeModel model = starforge.load(GOLDEN)) {
            StringBuilder heard = new StringBuilder();
            Completion middle = model.infill("int a = ", ";\n", GenerationConfig.greedy(16), piece -> {
                heard.append(piece);
                return true;
            });
            assertThat(middle.text()).isEqualTo(heard.toString());
            assertThat(middle.promptTokens())
                    .as("both sides and three markers, without what is generated again")
                    .isBetween(model.tokens(";\n") + 3, model.tokens("int a = ") + model.tokens(";\n") + 2);
        }
    }

    @Test
    void errorsHaveReadableMessages() {
        assertThatThrownBy(() -> Starforge.open("tpu", folder))
                .isInstanceOf(StarforgeException.class)
                .hasMessageContaining("device tpu is unknown; known are auto");
        assertThatThrownBy(() -> Starforge.open("cpu:9", folder))
                .hasMessageContaining("expected an index below 1, the number of such devices");
        assertThatThrownBy(() -> Starforge.open("cpu:x", folder)).hasMessageContaining("expected a number");
        assertThatThrownBy(() -> GenerationConfig.greedy(0)).hasMessage("maxTokens: expected at least 1, got 0");
        try (Starforge starforge = Starforge.open("cpu", folder);
                CodeModel model = starforge.load(GOLDEN)) {
            assertThat(starforge.device().kind()).isEqualTo("cpu");
            assertThat(Starforge.devices()).contains(starforge.device());
            assertThatThrownBy(() -> model.complete("x", GenerationConfig.greedy(1 << 20)))
                    .isInstanceOf(StarforgeException.class)
                    .hasMessageContaining("exceed the model's context of " + model.context());
            assertThatThrownBy(() -> model.complete("x", GenerationConfig.sampled(4, 9, 1)))
                    .isInstanceOf(StarforgeException.class)
                    .hasMessageContaining("temperature");
            assertThatThrownBy(() -> starforge.load(folder.resolve("none.gguf")))
                    .isInstanceOf(StarforgeException.class)
                    .hasMessageContaining("none.gguf");
        }
    }

    @Test
    void fileErrorsHaveTheSameType() {
        UncheckedIOException full = new UncheckedIOException(new IOException("model.safetensors: no space left"));
        assertThatThrownBy(() -> StarforgeException.guard(() -> {
                    throw full;
                }))
                .isInstanceOf(StarforgeException.class)
                .hasMessageContaining("model.safetensors: no space left")
                .hasCause(full);
    }
}
