package dev.starforge.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.bench.process.Programs;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

final class DevTest {
    private static String help() throws IOException, InterruptedException {
        Process process = new ProcessBuilder(Programs.ROOT.resolve("dev").toString(), "help").start();
        String help = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).isZero();
        return help;
    }

    /** The names in the first column of the help, without the scripts of bench/recipes and gpu-faults. */
    @Test
    void helpListsEveryCommand() throws IOException, InterruptedException {
        Set<String> listed = new TreeSet<>();
        for (String line : help().lines().toList()) {
            if (line.matches("  [a-z].*") && !line.startsWith("  peers ")) {
                listed.add(line.strip().split("\\s+")[0]);
            }
        }
        Set<String> commands =
                new TreeSet<>(Dev.commandLine(Path.of("")).getSubcommands().keySet());
        commands.addAll(scripts("recipes"));
        commands.add("gpu-faults");
        assertThat(listed).isEqualTo(commands);
    }

    @Test
    void helpListsEveryComparison() throws IOException, InterruptedException {
        List<String> listed = help().lines()
                .filter(line -> line.startsWith("  peers "))
                .map(line -> line.strip().split("\\s+")[1])
                .sorted()
                .toList();
        assertThat(listed).isEqualTo(scripts("peers"));
    }

    private static List<String> scripts(String folder) throws IOException {
        try (Stream<Path> files = Files.list(Path.of(folder))) {
            return files.filter(Files::isExecutable)
                    .filter(file -> !file.toString().contains("."))
                    .map(file -> file.getFileName().toString())
                    .sorted()
                    .toList();
        }
    }

    @Test
    void everyCommandHasADescription() {
        List<String> missing = new ArrayList<>();
        for (CommandLine command : Dev.commandLine(Path.of("")).getSubcommands().values()) {
            if (command.getCommandSpec().usageMessage().description().length == 0) {
                missing.add(command.getCommandName());
            }
        }
        assertThat(missing).isEmpty();
    }

    @Test
    void relativePathsAreResolvedAgainstTheFolderOfTheCaller(@TempDir Path folder) {
        CommandLine.ParseResult parsed = Dev.commandLine(folder).parseArgs("tune-sweep", "repository");
        Path repository = parsed.subcommand().matchedPositional(0).getValue();
        assertThat(repository).isEqualTo(folder.resolve("repository"));
    }

    @Test
    void optionsOfJmhKeepTheirOrder() {
        CommandLine.ParseResult parsed =
                Dev.commandLine(Path.of("")).parseArgs("jmh", "MatMul", "-p", "type=Q4_0", "-prof", "gc");
        List<String> args = parsed.subcommand().matchedPositional(0).getValue();
        assertThat(args).containsExactly("MatMul", "-p", "type=Q4_0", "-prof", "gc");
    }
}
