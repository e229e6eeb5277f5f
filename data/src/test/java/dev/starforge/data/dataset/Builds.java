package dev.starforge.data.dataset;

import dev.starforge.data.dataset.config.DatasetConfig;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.data.dataset.io.CompressedLines;
import dev.starforge.data.dataset.parse.ParserStarter;
import dev.starforge.data.dataset.report.DatasetReport;
import dev.starforge.data.dataset.report.TokenizerChoice;
import dev.starforge.text.config.Schema;
import dev.starforge.text.config.Settings;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Runs the pipeline like the dataset command. */
public final class Builds {
    static final BuildProgress SILENT = new BuildProgress() {
        @Override
        public void begin(String stage, long total) {}

        @Override
        public void advance() {}

        @Override
        public void message(String text) {}
    };

    private Builds() {}

    /** A child with the class path of the tests. */
    public static ParserStarter parsers(Path out) {
        return () -> new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Djava.io.tmpdir=" + DatasetBuilder.parserFolder(out).toAbsolutePath(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        "dev.starforge.grammar.GrammarMain")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
    }

    public static DatasetConfig config(Path repository, Path out, String... settings) {
        List<String> assignments = new ArrayList<>(List.of("name=repo", "threads=2"));
        for (int i = 0; i < settings.length; i += 2) {
            assignments.add(settings[i] + "=" + settings[i + 1]);
        }
        return new DatasetConfig(repository, out, "HEAD", "", settings(assignments));
    }

    public static Settings settings(List<String> assignments) {
        return Settings.of(Schema.of(DatasetKeys.ALL, Map.of()).withShorthand(DatasetKeys.SECTION))
                .set(assignments);
    }

    public static DatasetReport build(Path repository, Path out, String... settings) {
        return build(config(repository, out, settings));
    }

    static DatasetReport build(DatasetConfig config) {
        return new DatasetBuilder(
                        config,
                        new TokenizerChoice.TokenizerToTrain(600),
                        parsers(config.out()),
                        SILENT,
                        System::nanoTime)
                .build();
    }

    /** The text of a file of a dataset, which may be compressed. */
    public static String text(Path file) throws IOException {
        if (!file.toString().endsWith(".gz")) {
            return Files.readString(file);
        }
        try (BufferedReader lines = CompressedLines.open(file)) {
            return lines.readAllAsString();
        }
    }

    static List<JsonNode> lines(Path file) throws IOException {
        List<JsonNode> nodes = new ArrayList<>();
        for (String line : text(file).lines().toList()) {
            nodes.add(new JsonMapper().readTree(line));
        }
        return nodes;
    }
}
