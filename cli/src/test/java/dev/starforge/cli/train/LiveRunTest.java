package dev.starforge.cli.train;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.device.Usage;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.corpus.DataFacts;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

final class LiveRunTest {
    @TempDir
    private Path folder;

    /** Records the events that reach the terminal. */
    private static final class Terminal implements RunEvents {
        private final List<String> told = new ArrayList<>();

        @Override
        public void step(Step step) {
            told.add("step " + step.step());
        }

        @Override
        public void data(String split, DataFacts facts) {
            told.add("data " + split);
        }

        @Override
        public void evaluating(long step, long tokens, long all, double seconds) {
            told.add("evaluating " + tokens);
        }

        @Override
        public void evaluated(long step, double loss, boolean best) {
            told.add("evaluated " + loss);
        }

        @Override
        public void note(String text) {
            told.add(text);
        }
    }

    @Test
    void pageAndTerminalAreToldTheSameAndARunThatFailsSaysSo() throws Exception {
        Files.writeString(folder.resolve("samples.json"), "{\"samples\":[{\"prompt\":\"def\",\"before\":\"x\"}]}");
        Terminal terminal = new Terminal();
        LiveRun run = LiveRun.start(0, terminal, () -> 0, "models/tiny", folder);
        URI page = URI.create(terminal.told.getFirst().replace("live at ", ""));
        List<JsonNode> values;
        try (HttpClient client = HttpClient.newHttpClient()) {
            var stream = client.send(
                            HttpRequest.newBuilder(page.resolve("/run")).build(), BodyHandlers.ofLines())
                    .body();
            run.evaluating(3, 25, 100, 1);
            run.step(new RunEvents.Step(4, 10, 0.5, 100, 50, 2.5, 1e-3, 1, 1000, 1 << 20, 0, Usage.UNKNOWN, true));
            run.evaluated(4, 2.25, true);
            run.close();
            values = stream.filter(line -> line.startsWith("data: {"))
                    .map(line -> Jackson.JSON.readTree(line.substring(6)).path("values"))
                    .toList();
        }
        assertThat(terminal.told.subList(1, 4)).containsExactly("evaluating 25", "step 4", "evaluated 2.25");
        JsonNode last = values.getLast();
        assertThat(last.path("model").stringValue()).isEqualTo("models/tiny");
        assertThat(last.path("status").stringValue()).isEqualTo("failed");
        assertThat(last.path("samples").path(0).path("before").stringValue()).isEqualTo("x");
        assertThat(last.path("evaluating").doubleValue()).isZero();
    }
}
