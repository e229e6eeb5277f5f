package dev.starforge.cli.serve;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.file.SafetensorsWriter.SafetensorsEntry;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Shape;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A tuned model is served as base and adapter if both are at hand and the base is no larger. */
final class ComparisonTest {
    private static final Path GOLDEN = Path.of("..", "golden", "models", "llama3");

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
        base = Files.copy(GOLDEN.resolve("model.gguf"), folder.resolve("base.gguf"));
        Files.write(model, new byte[(int) (Files.size(base) / 1.2)]);
        adapter = Files.createDirectories(tuned.resolve("runs/2"));
        Path weights = GOLDEN.resolve("adapter").resolve(LoraAdapter.WEIGHTS);
        Files.copy(weights, adapter.resolve(LoraAdapter.WEIGHTS));
        config("");
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

    private void config(String more) throws IOException {
        Files.writeString(
                adapter.resolve(LoraAdapter.CONFIG),
                "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 4, \"base_model_name_or_path\": \"" + base + "\""
                        + more + "}");
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

    /** The table of adapters holds plain LoRA of projections, up to the rank of the config. */
    @Test
    void anAdapterThatNoTableHoldsIsServedAlone() throws IOException {
        TunedModel run = new TunedModel(base, Optional.of(adapter), "");
        for (String variant : List.of("\"use_dora\": true", "\"rank_pattern\": {\"q_proj\": 8}")) {
            config(", " + variant);
            assertThat(Comparison.of(run)).as(variant).isEmpty();
            assertThat(comparison()).as(variant).isEmpty();
        }
        config("");
        String head = "base_model.model.lm_head.lora_";
        SafetensorsWriter.write(
                adapter.resolve(LoraAdapter.WEIGHTS),
                List.of(matrix(head + "A.weight"), matrix(head + "B.weight")),
                Map.of());
        assertThat(Comparison.of(run)).isEmpty();
    }

    private static SafetensorsEntry matrix(String name) {
        return SafetensorsEntry.of(name, "F32", Shape.of(1, 1), (first, into, count) -> into[0] = 1);
    }

    /** The file does not need the run that it was made of. */
    @Test
    void aTunedModelIsServedWithoutItsRun() throws IOException {
        TunedModel served = new TunedModel(model, Optional.empty(), "");
        Files.move(tuned.resolve("runs"), folder.resolve("elsewhere"));
        assertThat(comparison()).isEmpty();
        assertThat(Comparison.sample(served)).isPresent();
        for (String state : List.of(
                "{", "{}", "{\"format\": \"starforge-tune\", \"version\": 1, \"model\": \"model/repo-tuned.gguf\"}")) {
            Files.writeString(tuned.resolve("tune.json"), state);
            assertThat(comparison()).as(state).isEmpty();
            assertThat(Comparison.sample(served)).as(state).isEmpty();
        }
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
        Files.write(model, new byte[(int) (Files.size(base) / 1.3)]);
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
