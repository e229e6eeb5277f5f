package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine.Model.OptionSpec;

/** What a shell completes is what there is, and the launchers start the same program. */
final class CompletionCommandTest {
    private static final Path ROOT = Path.of("..");

    @TempDir
    Path folder;

    private static String completion(String shell) {
        StringWriter out = new StringWriter();
        int code = RootCommand.commandLine().setOut(new PrintWriter(out)).execute("completion", shell);
        assertThat(code).isZero();
        return out.toString();
    }

    @ParameterizedTest
    @ValueSource(strings = {"bash", "zsh", "fish"})
    void everyVerbAndOptionIsCompleted(String shell) {
        String script = completion(shell);
        RootCommand.commandLine().getSubcommands().forEach((name, command) -> {
            if (!command.getCommandSpec().usageMessage().hidden()) {
                assertThat(script).contains(name);
                command.getCommandSpec().options().stream()
                        .filter(option -> !option.hidden())
                        .map(OptionSpec::longestName)
                        .filter(option -> option.startsWith("--"))
                        .forEach(option -> assertThat(script)
                                .contains(shell.equals("fish") ? "-l " + option.substring(2) : option));
            }
        });
    }

    @Test
    void bashTakesIt() throws IOException, InterruptedException {
        Path script = Files.writeString(folder.resolve("completion.bash"), completion("bash"));
        Process bash = new ProcessBuilder("bash", "-n", script.toString()).start();
        assertThat(new String(bash.getErrorStream().readAllBytes(), StandardCharsets.UTF_8))
                .isEmpty();
        assertThat(bash.waitFor()).isZero();
    }

    @Test
    void bothLaunchersGiveJavaTheSameOptions() throws IOException {
        String windows = Files.readString(ROOT.resolve("starforge.cmd"));
        Stream<String> options = Files.readString(ROOT.resolve("starforge"))
                .lines()
                .filter(line -> !line.strip().startsWith("#"))
                .flatMap(line -> Pattern.compile(
                                "-XX:[+-]?\\w+|dev\\.starforge\\.[\\w./]+|--module-path|-Xlog:disable|-Xmx\\d+g")
                        .matcher(line)
                        .results())
                .map(match -> match.group())
                .filter(option -> !option.contains("AOT"));
        assertThat(options.toList())
                .hasSizeGreaterThan(12)
                .allSatisfy(option -> assertThat(windows).contains(option));
    }
}
