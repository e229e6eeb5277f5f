package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.SampleOrigin;
import dev.starforge.data.TokenDocument;
import dev.starforge.data.TokenShardWriter;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.text.file.FolderLock;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** {@code doctor} and {@code train} say the same of the same set-up, good or broken, and a refused run writes nothing. */
final class PreflightCommandTest {
    private static final Path GOLDEN = Path.of("..", "golden", "models", "starcoder2");

    @TempDir
    Path folder;

    private Path model;
    private Path texts;

    @BeforeEach
    void aSetUpThatWorks() throws IOException {
        model = Files.createDirectories(folder.resolve("model"));
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json")) {
            Files.copy(GOLDEN.resolve(name), model.resolve(name));
        }
        texts = Files.writeString(
                folder.resolve("texts.jsonl"), "{\"text\": \"int x = 1;\\nint y = 2;\\n\"}\n".repeat(8));
    }

    private List<String> command(String name, List<String> settings) {
        List<String> command = new ArrayList<>(List.of(name, "--device", "cpu", "--json"));
        List<String> all = new ArrayList<>(List.of(
                "model.pretrained_model=\"" + model + "\"",
                "model.context_window=64",
                "data.train=\"" + texts + "\"",
                "training.max_steps=1",
                "training.samples=0",
                "output.output_dir=\"" + folder.resolve("run") + "\""));
        all.addAll(settings);
        all.forEach(setting -> command.addAll(List.of("--set", setting)));
        return command;
    }

    /** Both refuse, with one text. */
    private void refusedByBoth(String expected, String... settings) {
        CommandOutcome doctor = run(command("doctor", List.of(settings)));
        assertThat(doctor.code()).as(doctor.out()).isEqualTo(2);
        List<String> failures = new ArrayList<>();
        for (JsonNode finding : new JsonMapper().readTree(doctor.out()).path("findings")) {
            if (finding.path("level").stringValue().equals("not_ready")) {
                failures.add(finding.path("text").stringValue());
            }
        }
        CommandOutcome train = run(command("train", List.of(settings)));
        assertThat(train.code()).as(train.out()).isIn(1, 2);
        assertThat(train.err()).contains(expected);
        assertThat("starforge: " + failures.getFirst()).isEqualTo(train.err().strip());
    }

    @Test
    void aSetUpThatWorksIsReadyAndTrained() {
        CommandOutcome doctor = run(command("doctor", List.of()));
        assertThat(doctor.code()).as(doctor.out()).isLessThan(2);
        assertThat(doctor.out()).contains("measured with steps of the model");
        CommandOutcome train = run(command("train", List.of()));
        assertThat(train.err()).isEmpty();
        assertThat(train.code()).isZero();
    }

    @Test
    void whatIsBrokenIsRefusedByBothAlike() throws IOException {
        Path run = folder.resolve("run");
        refusedByBoth("model not found", "model.pretrained_model=nobody/nothing");
        refusedByBoth("does not exist", "data.train=\"" + folder.resolve("none.jsonl") + "\"");
        Path misspelt = Files.writeString(folder.resolve("misspelt.jsonl"), "{\"text\": \"a\"}\n{\"txt\": 1}\n");
        refusedByBoth(misspelt + ": line 2: expected ", "data.train=\"" + misspelt + "\"");
        refusedByBoth("nothing to train on", "data.train=\"\"");
        refusedByBoth("is not a dataset", "data.train=\"\"", "data.path=\"" + folder + "\"");
        refusedByBoth("the model supports at most", "model.context_window=1048576", "device.memory_limit=100000");
        refusedByBoth("MiB are available", "device.memory_limit=0.001");
        refusedByBoth("does not exist", "model.adapter=\"" + folder.resolve("none") + "\"");
        refusedByBoth(
                "no training data is left",
                "data.train=\""
                        + Files.writeString(
                                folder.resolve("pairs.jsonl"),
                                "{\"prompt\": \"" + "a b ".repeat(200) + "\", \"completion\": \"c\"}\n")
                        + "\"");
        refusedByBoth(
                "MiB are available",
                "model.pretrained_model=scratch",
                "device.memory_limit=2",
                "model.hidden_size=16384",
                "model.num_hidden_layers=200");
        refusedByBoth(
                "expected a divisor of the hidden size",
                "model.pretrained_model=scratch",
                "model.num_attention_heads=7");
        assertThat(run).doesNotExist();

        Files.createDirectories(run);
        Path foreign = Files.writeString(run.resolve("config.yaml"), "mine");
        refusedByBoth("is not empty and not a run: it has config.yaml");
        assertThat(foreign).hasContent("mine");
        Files.delete(foreign);
        try (FolderLock _ = FolderLock.take(run, "starforge train")) {
            refusedByBoth("is being written by another run (starforge train, process ", "output.overwrite=true");
        }
    }

    @Test
    void aDatasetOfAnotherTokenizerIsRefusedByBoth() throws IOException {
        Path data = Files.createDirectories(folder.resolve("data"));
        for (String split : List.of("train", "val", "test")) {
            try (TokenShardWriter writer = new TokenShardWriter(data.resolve(split + ".shard"), 640)) {
                writer.add(
                        new TokenDocument(split, new int[] {1, 2, 3}, new boolean[] {true, true, true}),
                        new SampleOrigin("abc", 1, "src"));
                writer.finish();
            }
        }
        Files.writeString(
                data.resolve("manifest.json"),
                "{\"format\": \"starforge-dataset\", \"version\": 1, \"tokenizer\": {\"sha256\": \"12ab\","
                        + " \"vocabulary\": 640}, \"generations\": [{\"directory\": \".\", \"splits\": {\"train\":"
                        + " {\"documents\": 1}, \"val\": {\"documents\": 1}, \"test\": {\"documents\": 1}}}]}");
        refusedByBoth("it was made with another tokenizer", "data.train=\"\"", "data.path=\"" + data + "\"");
    }

    @Test
    void weightsThatAreNotFiniteAreRefusedByBoth() throws IOException {
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        try (SafetensorsFile file = SafetensorsFile.open(GOLDEN.resolve("model.safetensors"))) {
            for (String name : file.tensors().keySet()) {
                float[] values = file.readFloats(name);
                if (name.endsWith("layers.1.mlp.c_fc.weight")) {
                    values[7] = Float.NaN;
                }
                entries.add(SafetensorsFile.SafetensorsData.of(
                        name, file.tensor(name).shape(), values));
            }
        }
        SafetensorsFile.write(model.resolve("model.safetensors"), entries);
        refusedByBoth("tensor model.layers.1.mlp.c_fc.weight: element 7 is NaN");
        assertThat(folder.resolve("run")).doesNotExist();
    }
}
