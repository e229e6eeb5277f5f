package dev.starforge.cli.options;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.WorkerOptions.ModelNames;
import dev.starforge.train.tune.TunedModel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.ParameterException;

/** The names by which requests can ask for a served model. */
final class ServingNamesTest {
    @TempDir
    Path folder;

    @Command(name = "serve")
    static final class Serving {
        @Mixin
        private ServingFlags flags;
    }

    private static CommandLine command(Serving serving) {
        return new CommandLine(serving).setCaseInsensitiveEnumValuesAllowed(true);
    }

    private static ModelNames names(String given, Path model, String... args) {
        Serving serving = new Serving();
        command(serving).parseArgs(args);
        return serving.flags.names(given, new TunedModel(model, Optional.empty(), ""));
    }

    @Test
    void theEmbeddedModelIsNano() {
        assertThat(names("nano", Path.of("/home/x/embedded/nano-0123456789ab.gguf")))
                .isEqualTo(new ModelNames("nano", List.of("nano-0123456789ab", "nano-0123456789ab.gguf")));
    }

    @Test
    void aPulledModelHasItsNameWithAndWithoutItsOwner() {
        assertThat(names("Qwen/Qwen2.5-Coder-0.5B", Path.of("/cache/snapshots/12ab")))
                .isEqualTo(new ModelNames("Qwen2.5-Coder-0.5B", List.of("Qwen/Qwen2.5-Coder-0.5B", "12ab")));
    }

    @Test
    void aFileHasItsNameAndAnAbsolutePathIsNotTold() throws Exception {
        Path file = Files.createFile(folder.resolve("coder.gguf"));
        assertThat(names(file.toString(), file)).isEqualTo(new ModelNames("coder", List.of("coder.gguf")));
        Path relative = Path.of("pom.xml");
        assertThat(names("pom.xml", relative)).isEqualTo(new ModelNames("pom.xml", List.of()));
    }

    @Test
    void aServedNameIsTheOnlyOne() {
        assertThat(names("nano", Path.of("/x/nano-1.gguf"), "--served-model-name", "coder"))
                .isEqualTo(new ModelNames("coder", List.of()));
    }

    @Test
    void anAdapterMayHaveTheNameOfAnAlias() {
        assertThat(names("nano", Path.of("/x/nano-1.gguf"), "--adapter", "nano-1=x")
                        .aliases())
                .containsExactly("nano-1.gguf");
        assertThatThrownBy(() -> names("nano", Path.of("/x/nano-1.gguf"), "--adapter", "nano=x"))
                .isInstanceOf(ParameterException.class);
    }

    @Test
    void anAdapterMayNotHaveTheNameOfTheBase() {
        Serving serving = new Serving();
        command(serving).parseArgs("--adapter", "nano=x");
        serving.flags.requireBaseName("nano-base");
        assertThatThrownBy(() -> serving.flags.requireBaseName("nano"))
                .isInstanceOf(ParameterException.class)
                .hasMessageContaining("--no-compare");
    }

    @Test
    void limitsOfConnectionsAreHonoured() {
        Serving serving = new Serving();
        command(serving).parseArgs("--max-connections", "70", "--max-connections-per-address", "9");
        ModelNames names = new ModelNames("m", List.of());
        assertThat(serving.flags.worker("w", names, 0).limits().connections()).isEqualTo(70);
        assertThat(serving.flags.worker("w", names, 0).limits().perAddress()).isEqualTo(9);
        command(serving).parseArgs("--max-connections-per-address", "0");
        assertThatThrownBy(() -> serving.flags.worker("w", names, 0)).isInstanceOf(ParameterException.class);
    }
}
