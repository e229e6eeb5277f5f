package dev.starforge.cli.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.text.file.Hashes;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A tuned model is served as base and adapter if both are at hand and the base is no larger. */
final class ComparisonTest {
    @TempDir
    Path folder;

    private Path tuned;
    private Path model;
    private Path base;
    private Path adapter;

    @BeforeEach
    void tune() throws IOException {
        tuned = Files.createDirectories(folder.resolve("repo/.starforge"));
        model = Files.createDirectory(tuned.resolve("model")).resolve("repo-tuned.gguf");
        Files.write(model, new byte[100]);
        base = Files.write(folder.resolve("base.gguf"), new byte[110]);
        adapter = Files.createDirectories(tuned.resolve("runs/2"));
        Files.writeString(adapter.resolve("adapter_config.json"), "{\"base_model_name_or_path\": \"" + base + "\"}");
        Path measured = Files.writeString(
                tuned.resolve("eval-2.json"),
                "{\"tuned_minus_base\": {}, \"prompts\": [{\"prompt\": \"let x\", \"after\": \"\\n}\"}]}");
        Files.writeString(tuned.resolve("tune.json"), """
            {"format": "starforge-tune", "version": 1, "model": "model/repo-tuned.gguf", "rounds": [
              {"number": 1, "base": "base", "steps": {"quantize": {}}},
              {"number": 2, "base": "base", "steps": {"evaluate": {"output": "eval-2.json", "sha256": "%s"}, "quantize": {}}},
              {"number": 3, "base": "base", "steps": {}}]}
            """.formatted(Hashes.sha256(measured)));
    }

    private Optional<Comparison> comparison() {
        return Comparison.of(new TunedModel(model, Optional.empty(), ""));
    }

    @Test
    void aTunedModelAndItsBase() {
        assertThat(comparison()).contains(new Comparison(base, "base", adapter));
        assertThat(comparison().orElseThrow().name("repo-tuned")).isEqualTo("base");
        assertThat(comparison().orElseThrow().name("base")).isEqualTo("base-base");
        TunedModel run = new TunedModel(base, Optional.of(adapter), "");
        assertThat(Comparison.of(run)).contains(new Comparison(base, "base", adapter));
    }

    @Test
    void thePageGetsAPromptFromTheRepository() throws IOException {
        TunedModel served = new TunedModel(model, Optional.empty(), "");
        assertThat(Comparison.sample(served).orElseThrow().prompt()).isEqualTo("let x");
        assertThat(Comparison.sample(served).orElseThrow().suffix()).isEqualTo("\n}");
        Files.writeString(tuned.resolve("eval-2.json"), "{}");
        assertThat(Comparison.sample(served)).isEmpty();
        assertThat(Comparison.sample(new TunedModel(base, Optional.empty(), "")))
                .isEmpty();
    }

    @Test
    void aMissingOrLargerBaseIsNotServed() throws IOException {
        Files.write(base, new byte[300]);
        assertThat(comparison()).isEmpty();
        Files.delete(base);
        assertThat(comparison()).isEmpty();
        assertThat(Comparison.of(new TunedModel(folder.resolve("other.gguf"), Optional.empty(), "")))
                .isEmpty();
    }

    /** Editor settings are only those that work. */
    @Test
    void modelsWithoutFillInTheMiddleTokensHaveOtherEditorSettings() {
        assertThat(EditorSettings.hint(true, "http://u")).contains("http://u/infill");
        assertThat(EditorSettings.hint(false, "http://u"))
                .contains("no fill-in-the-middle tokens")
                .doesNotContain("endpoint_fim");
        assertThat(EditorSettings.blocks("http://u", "m", Optional.empty()))
                .contains("no fill-in-the-middle tokens", "Continue (config.yaml)", "{{{prefix}}}")
                .doesNotContain("endpoint_fim", "llama-vscode.endpoint");
        assertThat(EditorSettings.blocks(
                        "http://u", "m", FimMarkers.KNOWN.stream().findFirst()))
                .contains("endpoint_fim", "<fim_prefix>{{{prefix}}}<fim_suffix>{{{suffix}}}<fim_middle>");
    }
}
