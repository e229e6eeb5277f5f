package dev.starforge.bench.serve;

import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Load test of any server with OpenAI's API: concurrent streams, a long prompt that joins them, and the same prompt again. Prompts
 * are token ids, so that every server has the same work. Answers are not checked; {@code ./dev peers llama-logits} does that.
 *
 * <p>The same number of streams and tokens runs once before as a warm-up, with other prompts: the first steps of a batch size and of
 * a sequence length compile kernels and capture graphs.
 */
final class ServerLoad {
    private static final int SHORT_PROMPT = 32;
    private static final int FIRST_ID = 100; // within the vocabulary of every model
    private static final int IDS = 400;

    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final URI server;
    private final int streams;
    private final int tokens;
    private final int prompt;
    private final GpuMeter meter;

    ServerLoad(URI server, int streams, int tokens, int prompt, GpuMeter meter) {
        this.server = server;
        this.streams = streams;
        this.tokens = tokens;
        this.prompt = prompt;
        this.meter = meter;
    }

    /**
     * Arrival times of the tokens of a stream.
     *
     * @param usage number of tokens that the server reports; 0 if it ended the stream early, as llama-server does when a model with
     *     random weights generates invalid UTF-8
     */
    private record StreamTimes(long asked, List<Long> at, int usage) {
        int count() {
            return usage == 0 ? at.size() : usage;
        }

        double first() {
            return (at.getFirst() - asked) / 1e9;
        }

        /** The longest time between two events that overlaps the given interval. */
        double longestGap(long from, long to) {
            double longest = 0;
            for (int i = 1; i < at.size(); i++) {
                boolean within = at.get(i) > from && at.get(i - 1) < to;
                longest = within ? Math.max(longest, (at.get(i) - at.get(i - 1)) / 1e9) : longest;
            }
            return longest;
        }

        long begun() {
            return at.getFirst();
        }

        long last() {
            return at.getLast();
        }
    }

    ObjectNode run() throws Exception {
        try (client) {
            return measured();
        }
    }

    private ObjectNode measured() throws Exception {
        ObjectNode report = Jackson.object();
        load(90_000, Jackson.object());
        load(1_000, report);
        join(report);
        long begin = System.nanoTime();
        ask(ids(2_000, prompt), 1);
        double cold = (System.nanoTime() - begin) / 1e9;
        begin = System.nanoTime();
        ask(ids(2_000, prompt), 1);
        double warm = (System.nanoTime() - begin) / 1e9;
        report.put("prefix_cold_s", rounded(cold)).put("prefix_warm_s", rounded(warm));
        return report;
    }

    /** Runs concurrent streams while /health is polled. */
    private void load(int seed, ObjectNode report) throws Exception {
        try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
            long begin = System.nanoTime();
            List<Future<StreamTimes>> running = new ArrayList<>();
            for (int i = 0; i < streams; i++) {
                int[] ids = ids(seed + i, SHORT_PROMPT);
                running.add(clients.submit(() -> ask(ids, tokens)));
            }
            List<Double> health = new ArrayList<>();
            while (running.stream().anyMatch(each -> !each.isDone())) {
                long asked = System.nanoTime();
                HttpRequest request =
                        HttpRequest.newBuilder(server.resolve("health")).build();
                client.send(request, BodyHandlers.discarding());
                health.add((System.nanoTime() - asked) / 1e6);
                Thread.sleep(10);
            }
            List<StreamTimes> streamed = new ArrayList<>();
            for (Future<StreamTimes> each : running) {
                streamed.add(each.get());
            }
            long end = streamed.stream().mapToLong(StreamTimes::last).max().orElseThrow();
            int all = streamed.stream().mapToInt(StreamTimes::count).sum();
            List<Double> first = streamed.stream().map(StreamTimes::first).toList();
            report.put("streams", streams).put("tokens", all);
            report.put(
                    "broken_off",
                    streamed.stream().filter(each -> each.usage == 0).count());
            report.put("tok_s", rounded(all / ((end - begin) / 1e9)));
            report.put("ttft_p50_s", rounded(percentile(first, 50))).put("ttft_p99_s", rounded(percentile(first, 99)));
            report.put("longest_gap_s", rounded(longest(streamed, begin, end)));
            report.put("health_p50_ms", rounded(percentile(health, 50)));
            report.put("health_p99_ms", rounded(percentile(health, 99)));
            long allBegan =
                    streamed.stream().mapToLong(StreamTimes::begun).max().orElseThrow();
            long oneEnded = streamed.stream().mapToLong(StreamTimes::last).min().orElseThrow();
            meter.report(report, allBegan, oneEnded);
        }
    }

    /** Sends a long prompt while all streams run, and measures how long they wait for their next token. */
    private void join(ObjectNode report) throws Exception {
        try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<StreamTimes>> running = new ArrayList<>();
            long begin = System.nanoTime();
            for (int i = 0; i < streams; i++) {
                int[] ids = ids(5_000 + i, SHORT_PROMPT);
                running.add(clients.submit(() -> ask(ids, 4 * tokens)));
            }
            Thread.sleep((long) (1e3 * 1.5 * report.path("ttft_p99_s").doubleValue()));
            StreamTimes joined =
                    clients.submit(() -> ask(ids(7_000, prompt), 4)).get();
            long end = joined.at.getFirst();
            List<StreamTimes> streamed = new ArrayList<>();
            for (Future<StreamTimes> each : running) {
                streamed.add(each.get());
            }
            report.put("join_ttft_s", rounded(joined.first()));
            report.put("join_longest_gap_s", rounded(longest(streamed, joined.asked, end)));
            report.put(
                    "join_streams_ended_before",
                    streamed.stream().filter(each -> each.last() < end).count());
            report.put("join_began_after_s", rounded((joined.asked - begin) / 1e9));
        }
    }

    private static double longest(List<StreamTimes> streamed, long from, long to) {
        return streamed.stream()
                .mapToDouble(each -> each.longestGap(from, to))
                .max()
                .orElse(0);
    }

    private static int[] ids(int seed, int count) {
        int[] ids = new int[count];
        for (int i = 0; i < count; i++) {
            ids[i] = FIRST_ID + Math.floorMod(31 * seed + 17 * i + i * i, IDS);
        }
        return ids;
    }

    private StreamTimes ask(int[] ids, int maxTokens) throws IOException, InterruptedException {
        ObjectNode body = Jackson.object();
        body.put("max_tokens", maxTokens).put("ignore_eos", true).put("temperature", 0);
        body.put("stream", true);
        body.putObject("stream_options").put("include_usage", true);
        var list = body.putArray("prompt");
        for (int id : ids) {
            list.add(id);
        }
        HttpRequest request = HttpRequest.newBuilder(server.resolve("v1/completions"))
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(body.toString()))
                .build();
        long asked = System.nanoTime();
        HttpResponse<Stream<String>> response = client.send(request, BodyHandlers.ofLines());
        List<Long> at = new ArrayList<>();
        int count = 0;
        try (Stream<String> lines = response.body()) {
            for (Iterator<String> each = lines.iterator(); each.hasNext(); ) {
                String line = each.next();
                if (line.startsWith("data: {")) {
                    JsonNode event = Jackson.JSON.readTree(line.substring("data: ".length()));
                    if (!event.path("choices").isEmpty()) {
                        at.add(System.nanoTime());
                    }
                    count = event.at("/usage/completion_tokens").asInt(count);
                }
            }
        }
        if (response.statusCode() != 200 || at.isEmpty()) {
            throw new IOException("POST /v1/completions: expected 200 and a stream, got " + response.statusCode()
                    + " with " + at.size() + " events");
        }
        return new StreamTimes(asked, at, count);
    }

    private static double percentile(List<Double> values, int percent) {
        List<Double> sorted = values.stream().sorted().toList();
        return sorted.get(Math.min(sorted.size() - 1, sorted.size() * percent / 100));
    }

    private static double rounded(double value) {
        return Double.parseDouble(String.format(Locale.ROOT, "%.3f", value));
    }
}
