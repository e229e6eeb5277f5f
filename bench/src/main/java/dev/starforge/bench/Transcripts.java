package dev.starforge.bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;

/**
 * Runs the commands of docs/walkthrough.md in a fresh clone and writes their output into the page, so that all figures there
 * come from one run. A command is the line {@code $ COMMAND} that begins a {@code console} block; the rest of the block is its
 * output. The config file is the {@code yaml} block. Long output keeps its first and last lines, by a fixed rule.
 */
@Command(
        name = "transcripts",
        mixinStandardHelpOptions = true,
        description = {
            "Runs the commands of docs/walkthrough.md in a fresh clone of the current commit and replaces their output"
                    + " on the page.",
            "Takes about ten minutes; run it on an otherwise idle machine."
        })
final class Transcripts implements Callable<Integer> {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
    private static final Path PAGE = ROOT.resolve("docs").resolve("walkthrough.md");
    private static final int FIRST_LINES = 4;
    private static final int LAST_LINES = 10;

    @Override
    public Integer call() throws IOException, InterruptedException {
        Path clone = Files.createTempDirectory("transcripts").resolve("starforge");
        output(ROOT, "git clone -q . " + clone);
        output(clone, "./starforge --version");
        List<String> page = Files.readAllLines(PAGE);
        Files.writeString(clone.resolve("tune.yaml"), block(page, page.indexOf("```yaml")));
        List<String> written = new ArrayList<>();
        for (int i = 0; i < page.size(); i++) {
            written.add(page.get(i));
            if (page.get(i).equals("```console")) {
                String command = page.get(i + 1).substring(2);
                System.out.println("$ " + command);
                written.add(page.get(i + 1));
                written.addAll(elided(output(clone, command)));
                i = end(page, i);
                written.add(page.get(i));
            }
        }
        Files.write(PAGE, written);
        System.out.println("wrote docs/walkthrough.md");
        return 0;
    }

    private static String block(List<String> page, int fence) {
        return String.join("\n", page.subList(fence + 1, end(page, fence))) + "\n";
    }

    private static int end(List<String> page, int fence) {
        int end = fence + 1;
        while (!page.get(end).equals("```")) {
            end++;
        }
        return end;
    }

    /** Standard output and error of a command, without the folder that it ran in. */
    private static List<String> output(Path folder, String command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder("bash", "-c", command)
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .start();
        String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IOException(command + " ended with " + process.exitValue() + ":\n" + text);
        }
        return text.replace(folder + "/", "")
                .replace(folder.toString(), ".")
                .stripTrailing()
                .lines()
                .toList();
    }

    private static List<String> elided(List<String> lines) {
        if (lines.size() <= FIRST_LINES + LAST_LINES + 1) {
            return lines;
        }
        List<String> kept = new ArrayList<>(lines.subList(0, FIRST_LINES));
        kept.add("...");
        kept.addAll(lines.subList(lines.size() - LAST_LINES, lines.size()));
        return kept;
    }
}
