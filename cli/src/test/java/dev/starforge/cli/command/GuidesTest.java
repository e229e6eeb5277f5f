package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/**
 * Every command of every page, parsed by the parser that the program has: one with a command, an option or a number of arguments
 * that there is not is found, with its line. Commands inside of sentences may leave arguments out.
 */
final class GuidesTest {
    private static final Path ROOT = Path.of("..");
    private static final CommandLine PROGRAM = RootCommand.commandLine();
    private static final Pattern LINE = Pattern.compile("^(?:    |[\\w-]*\\$ |#   )(?:\\./)?starforge (.+)$");
    private static final Pattern INLINE = Pattern.compile("`(?:\\./)?starforge ([^`]+)`");

    private static List<Path> pages() throws IOException {
        List<Path> pages = new ArrayList<>(List.of(ROOT.resolve("README.md"), ROOT.resolve("CONTRIBUTING.md")));
        for (String folder : List.of("docs", "configs", "examples", "models")) {
            try (Stream<Path> files = Files.walk(ROOT.resolve(folder))) {
                files.filter(file -> file.toString().matches(".*\\.(md|yaml)"))
                        .sorted()
                        .forEach(pages::add);
            }
        }
        return pages;
    }

    @Test
    void everyCommandIsOneThatTheProgramTakes() throws IOException {
        List<String> wrong = new ArrayList<>();
        int commands = 0;
        for (Path page : pages()) {
            List<String> lines = Files.readAllLines(page);
            for (int i = 0; i < lines.size(); i++) {
                String place = page + ":" + (i + 1) + ": ";
                Matcher line = LINE.matcher(lines.get(i));
                if (line.matches()
                        && !isSynopsis(line.group(1))
                        && !line.group(1).endsWith("\\")) {
                    commands++;
                    complaint(words(line.group(1))).ifPresent(why -> wrong.add(place + why));
                }
                Matcher inline = INLINE.matcher(lines.get(i));
                while (inline.find()) {
                    if (!isSynopsis(inline.group(1))) {
                        commands++;
                        unknown(words(inline.group(1))).ifPresent(why -> wrong.add(place + why));
                    }
                }
            }
        }
        assertThat(wrong).isEmpty();
        assertThat(commands).isGreaterThan(90);
    }

    /** The test itself must be able to fail. */
    @Test
    void whatThereIsNotIsFound() {
        assertThat(complaint(words("tune --minuts 3")))
                .hasValueSatisfying(why -> assertThat(why).contains("--minuts"));
        assertThat(complaint(words("tun"))).isPresent();
        assertThat(complaint(words("generate a b --prompt x"))).isPresent();
        assertThat(complaint(words("generate 'a b' --prompt \"x # y\" # a comment")))
                .isEmpty();
        assertThat(unknown(words("merge"))).isEmpty();
        assertThat(unknown(words("merge --ont"))).contains("merge has no option --ont");
        assertThat(unknown(words("mrge"))).contains("unknown command mrge");
    }

    /** {@code [--repo PATH]}: says what may be given, and is nothing to run. */
    private static boolean isSynopsis(String command) {
        return command.matches(".*(\\[|\\.\\.\\.|…|COMMAND).*");
    }

    private static Optional<String> complaint(List<String> words) {
        try {
            PROGRAM.parseArgs(words.toArray(String[]::new));
            return Optional.empty();
        } catch (ParameterException refused) {
            return Optional.of(String.join(" ", words) + ": " + refused.getMessage());
        }
    }

    private static Optional<String> unknown(List<String> words) {
        CommandLine command = PROGRAM.getSubcommands().get(words.getFirst());
        if (command == null) {
            return words.getFirst().startsWith("-")
                    ? Optional.empty()
                    : Optional.of("unknown command " + words.getFirst());
        }
        return words.stream()
                .filter(word -> word.startsWith("--"))
                .map(word -> word.replaceAll("=.*", ""))
                .filter(word -> command.getCommandSpec().findOption(word) == null)
                .map(word -> words.getFirst() + " has no option " + word)
                .findFirst();
    }

    /** As a shell divides them, up to a comment, a pipe or a redirection. */
    private static List<String> words(String command) {
        List<String> words = new ArrayList<>();
        Matcher word = Pattern.compile("'([^']*)'|\"([^\"]*)\"|(\\S+)").matcher(command);
        while (word.find()) {
            String bare = word.group(3);
            if (bare != null && bare.matches("#.*|[|<>&;].*|2>.*")) {
                break;
            }
            words.add(bare != null ? bare : word.group(1) != null ? word.group(1) : word.group(2));
        }
        return words;
    }
}
