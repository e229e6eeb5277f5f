package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.cli.hub.FakeHub;
import dev.starforge.cli.model.Environment;
import dev.starforge.cli.model.ModelLocator;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** From a hub to a trained adapter, as a user types it. */
final class PullCommandTest {
    @TempDir
    Path folder;

    @Test
    void aPulledModelIsTrainedInEightBits() throws IOException {
        String model = folder.resolve("model").toString();
        try (FakeHub hub = new FakeHub()
                .with(
                        Path.of("..", "golden", "models", "starcoder2"),
                        "config.json",
                        "model.safetensors",
                        "tokenizer.json")) {
            String endpoint = hub.endpoint().toString();
            CommandOutcome pulled = run("pull", FakeHub.REPO, "--out", model, "--endpoint", endpoint, "--json");
            assertThat(pulled.code()).as(pulled.err()).isZero();
            assertThat(pulled.json().path("files").intValue()).isEqualTo(3);
        }
        CommandOutcome here = run("pull", FakeHub.REPO, "--out", model, "--offline", "--json");
        assertThat(here.code()).as(here.err()).isZero();
        assertThat(here.json().path("path").stringValue()).isEqualTo(model);
        String texts = "{\"text\": \"" + "def f(x):\\n    return x + 1\\n".repeat(8) + "\"}\n";
        Path sequences = Files.writeString(folder.resolve("texts.jsonl"), texts.repeat(12));
        CommandOutcome trained = run(
                "train",
                "--device=cpu",
                "--sequences=" + sequences,
                "--output=" + folder.resolve("run"),
                "--set=model.pretrained_model=" + model,
                "--set=model.context_window=64",
                "--set=quantization.load_in_4bit=false",
                "--set=quantization.load_in_8bit=true",
                "--set=quantization.lora_rank=4",
                "--set=training.max_steps=3",
                "--set=training.samples=0");
        assertThat(trained.code()).as(trained.err()).isZero();
        assertThat(run("inspect", folder.resolve("run").toString()).out()).contains("trained_on: int8-128");
    }

    @Test
    void aHubThatIsNotReachedIsNamedWithTheReasonAndWhatToDo() {
        long began = System.nanoTime();
        CommandOutcome outcome = run("pull", "a/b", "--out", folder.toString(), "--endpoint", "http://127.0.0.1:1");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err())
                .startsWith("pull: connecting to 127.0.0.1 ...")
                .contains("starforge: cannot connect to 127.0.0.1: connection refused. ")
                .contains("HTTPS_PROXY=http://HOST:PORT", "HF_ENDPOINT=https://HOST", "`starforge serve FILE.gguf`")
                .doesNotContain("Exception");
        assertThat(System.nanoTime() - began).isLessThan(10_000_000_000L);
    }

    @Test
    void withoutANetworkAMissingModelIsAnError() {
        CommandOutcome outcome = run("pull", "nobody/nothing", "--to", folder.toString(), "--offline");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err())
                .contains("nobody/nothing is not on this machine")
                .doesNotContain("Exception");
        assertThat(run("pull", "nothing").code()).isEqualTo(2);
        for (String endpoint : List.of("ftp://x", "hub.example", "https://x:99999", "https://x?a=b")) {
            assertThat(run("pull", "a/b", "--endpoint", endpoint).err())
                    .contains("--endpoint: expected https://HOST, got " + endpoint);
        }
        assertThat(run("pull", "a/b", "--endpoint", "a b").err())
                .contains("expected a URL, got 'a b'")
                .doesNotContain("Exception");
    }

    @Test
    void aMissingModelSaysWhereItWasLookedForAndHowToGetIt() {
        Environment environment =
                new Environment(Map.of("STARFORGE_HOME", folder.toString(), "HF_HOME", "/hf"), Path.of("/user"));
        assertThatThrownBy(() -> ModelLocator.find("nobody/nothing", "Else.", environment.store()))
                .message()
                .contains(
                        folder.resolve("models/nobody/nothing").toString(),
                        Path.of("/hf/hub/models--nobody--nothing").toString(),
                        "`starforge pull nobody/nothing` downloads it",
                        "Else.");
        assertThat(new Environment(Map.of(), folder).home()).isEqualTo(folder.resolve(".local/share/starforge"));
    }

    @Test
    void theTokenIsTheVariablesOrTheFiles() throws IOException {
        assertThat(new Environment(Map.of(), folder).token()).isEmpty();
        Files.createDirectories(folder.resolve(".cache/huggingface"));
        Files.writeString(folder.resolve(".cache/huggingface/token"), "from-file\n");
        assertThat(new Environment(Map.of(), folder).token()).contains("from-file");
        assertThat(new Environment(Map.of("HF_TOKEN", "from-variable"), folder).token())
                .contains("from-variable");
        assertThat(new Environment(Map.of("HF_HUB_OFFLINE", "1"), folder).offline())
                .isTrue();
    }
}
