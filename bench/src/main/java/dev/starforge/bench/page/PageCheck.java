package dev.starforge.bench.page;

import dev.starforge.bench.process.Programs;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.LocalDate;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** Prepares a dataset and runs {@code page-check.mjs}, which drives Chromium. */
@Command(
        name = "page-check",
        mixinStandardHelpOptions = true,
        description = {
            "Checks the web UI and the HTML reports in headless Chromium: completion, fill-in-the-middle, chat, stop,"
                    + " adapters, base against tuned, an API key, a pool whose worker is killed, a training run, the"
                    + " reports of dataset, train and eval; light and dark, desktop and phone.",
            "",
            "Fails on a console message, a request to another host, a field without a label, low contrast, or a page"
                    + " wider than its window.",
            "Needs Node 20 or newer, npm once for playwright-core, and Chromium."
        })
public final class PageCheck implements Callable<Integer> {
    private static final Path SCRIPT = Path.of("src", "main", "page-check.mjs").toAbsolutePath();
    private static final Path WORK = Path.of("target", "page-check").toAbsolutePath();
    private static final int COMMITS = 24;

    @Parameters(
            paramLabel = "FOLDER",
            arity = "0..1",
            description = "Folder for a screenshot of each page (default: bench/target/page-check).")
    Path screenshots = WORK;

    @Override
    public Integer call() throws IOException, InterruptedException {
        Files.createDirectories(WORK);
        Files.createDirectories(screenshots);
        if (!Files.isDirectory(WORK.resolve(Path.of("node_modules", "playwright-core")))) {
            Programs.run(
                    "npm",
                    "install",
                    "--silent",
                    "--no-fund",
                    "--no-audit",
                    "--prefix",
                    WORK.toString(),
                    "playwright-core@1.56.0");
        }
        Programs.starforge("--version"); // builds it
        for (String output : List.of("run", "data", "repository")) {
            Programs.delete(WORK.resolve(output));
        }
        Path repository = WORK.resolve("repository");
        commitHistory(repository);
        Files.writeString(
                WORK.resolve("dataset.log"),
                Programs.starforge(
                        "dataset",
                        "--repo",
                        repository.toString(),
                        "--out",
                        WORK.resolve("data").toString(),
                        "--tokenizer",
                        "golden/models/starcoder2",
                        "--set",
                        "samples.context_length=192"));
        Path script = WORK.resolve("page-check.mjs"); // beside node_modules
        Files.copy(SCRIPT, script, StandardCopyOption.REPLACE_EXISTING);
        return new ProcessBuilder("node", script.toString(), WORK.toString(), screenshots.toString())
                .directory(Programs.ROOT.toFile())
                .inheritIO()
                .start()
                .waitFor();
    }

    /** Makes a repository of small files that grow, with keys that must be redacted. */
    private static void commitHistory(Path repository) throws IOException, InterruptedException {
        String folder = repository.toString();
        Programs.run("git", "init", "-q", "-b", "main", folder);
        StringBuilder steps = new StringBuilder();
        for (int day = 1; day <= COMMITS; day++) {
            steps.append(String.format(
                    "def step_%d(value, limit=%d):\n"
                            + "    \"\"\"Moves a value on by %d.\"\"\"\n"
                            + "    for i in range(limit):\n"
                            + "        value += i * %d\n"
                            + "    return value %% limit\n\n\n",
                    day, day * 7, day, day));
            Files.writeString(repository.resolve("steps.py"), steps);
            Files.writeString(
                    repository.resolve("settings_" + day + ".py"),
                    String.format(
                            "API_KEY = \"sk-proj-%s\"\nPASSWORD = \"Tr0ub4dor-%d-%s\"\n",
                            sha256("page " + day).substring(0, 48),
                            day,
                            sha256("word " + day).substring(0, 10)));
            Programs.run("git", "-C", folder, "add", "-A");
            String when = LocalDate.of(2025, 1, 1).plusDays(day) + "T12:00:00";
            Programs.run(
                    Map.of("GIT_AUTHOR_DATE", when, "GIT_COMMITTER_DATE", when),
                    List.of(
                            "git",
                            "-C",
                            folder,
                            "-c",
                            "user.name=history",
                            "-c",
                            "user.email=history@example.com",
                            "commit",
                            "-q",
                            "-m",
                            "Add step " + day));
        }
    }

    private static String sha256(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
