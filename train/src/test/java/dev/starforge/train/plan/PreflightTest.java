package dev.starforge.train.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.TrainException;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.run.Runs;
import dev.starforge.train.run.Tiny;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the machine has, where a test must say so; the verbs' own test drives the rest. */
final class PreflightTest {
    @TempDir
    Path folder;

    private static final Preflight.Models MODELS = new Preflight.Models() {
        @Override
        public Path find(String name) {
            return Path.of(name);
        }

        @Override
        public Optional<Tokenizer> tokenizer(Path model) {
            return Optional.empty();
        }
    };

    private static Preflight preflight(RunConfig config, long memory, long disk) {
        MachineFacts machine =
                new MachineFacts("cpu", "a CPU", memory, memory, List.of(DType.F32), "tiled", "no T x T matrix");
        try (Device device = Tiny.cpu(2)) {
            return Preflight.of(new Preflight.Setup(config, machine, device, false, MODELS, folder -> disk));
        }
    }

    private static Preflight.Finding found(Preflight preflight, String subject) {
        return preflight.findings().stream()
                .filter(finding -> finding.subject().equals(subject))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void aDiskThatIsTooSmallIsRefusedBeforeAnythingIsWritten() throws IOException {
        RunConfig config = Runs.config(folder);
        Preflight small = preflight(config, 8L << 30, 1 << 20);
        Preflight.Finding disk = found(small, "disk");
        assertThat(disk.level()).isEqualTo(Preflight.Level.NOT_READY);
        assertThatThrownBy(small::require).isInstanceOf(TrainException.class).hasMessage(disk.text());
        assertThat(disk.text()).startsWith("1 MiB free at ").contains("MiB required");
        assertThat(folder.resolve("run")).doesNotExist();
        Preflight enough = preflight(config, 8L << 30, 64L << 30);
        assertThat(found(enough, "disk").level()).isEqualTo(Preflight.Level.READY);
        enough.require();
    }

    @Test
    void anOversizedNewModelIsRefusedByItsSizesAlone() throws IOException {
        RunConfig config = Runs.config(
                folder,
                "model.pretrained_model=scratch",
                "quantization.lora_enabled=false",
                "data.train=\"" + Files.writeString(folder.resolve("a.jsonl"), "{\"text\": \"a text\"}\n") + "\"",
                "data.validation=\"\"",
                "model.hidden_size=4096",
                "model.num_hidden_layers=32");
        Preflight preflight = preflight(config, 4L << 30, 64L << 30);
        assertThatThrownBy(preflight::require)
                .isInstanceOf(TrainException.class)
                .hasMessage(found(preflight, "memory").text())
                .hasMessageContaining("MiB are available");
        assertThat(folder.resolve("run")).doesNotExist();
    }
}
