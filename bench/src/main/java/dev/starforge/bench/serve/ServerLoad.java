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
 * How a server with OpenAI's API does under load, whoever made it: streams at once, a long prompt that joins them, and the
 * same prompt again. Prompts are token ids, so that every server has the same work; a server that computes something else is
 * not noticed here, which is what {@code ./dev peers llama-logits} is for.
 *
 * <p>As many streams of as many tokens run once before, with other prompts: the first steps of a batch size, and of a length of
 * text, compile kernels and record what later ones replay.
 */
final class ServerLoad {
    private static final int SHORT_PROMPT = 32;
    private static final int FIRST_ID = 100; // within the vocabulary of every model that there is
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
     * When the tokens of a stream came.
     *
     * @param usage how many they were, by the server; 0 where it broke the stream off, as llama-server does when a model of
     *     random weights writes what is no UTF-8
     */
    private record Heard(long asked, List<Long> at, int usage) {
        int count() {
            return usage == 0 ? at.size() : usage;
        }

        double first() {
            return (at.getFirst() - asked) / 1e9;
        }

        /** The longest time between two of its events that touches a span of time. */
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
        ObjectNode said = Jackson.object();
        load(90_000, Jackson.object());
        load(1_000, said);
        join(said);
        long begin = System.nanoTime();
        ask(ids(2_000, prompt), 1);
        double cold = (System.nanoTime() - begin) / 1e9;
        begin = System.nanoTime();
        ask(ids(2_000, prompt), 1);
        double warm = (System.nanoTime() - begin) / 1e9;
        said.put("prefix_cold_s", rounded(cold)).put("prefix_warm_s", rounded(warm));
        return said;
    }

    /** Streams that begin together, while somebody asks for the server's health. */
    private void load(int seed, ObjectNode said) throws Exception {
        try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
            long begin = System.nanoTime();
            List<Future<Heard>> running = new ArrayList<>();
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
            List<Heard> heard = new ArrayList<>();
            for (Future<Heard> each : running) {
                heard.add(each.get());
            }
            long end = heard.stream().mapToLong(Heard::last).max().orElseThrow();
            int all = heard.stream().mapToInt(Heard::count).sum();
            List<Double> first = heard.stream().map(Heard::first).toList();
            said.put("streams", streams).put("tokens", all);
            said.put(
                    "broken_off", heard.stream().filter(each -> each.usage == 0).count());
            said.put("tok_s", rounded(all / ((end - begin) / 1e9)));
            said.put("ttft_p50_s", rounded(percentile(first, 50))).put("ttft_p99_s", rounded(percentile(first, 99)));
            said.put("longest_gap_s", rounded(longest(heard, begin, end)));
            said.put("health_p50_ms", rounded(percentile(health, 50)));
            said.put("health_p99_ms", rounded(percentile(health, 99)));
            long allBegan = heard.stream().mapToLong(Heard::begun).max().orElseThrow();
            long oneEnded = heard.stream().mapToLong(Heard::last).min().orElseThrow();
            meter.report(said, allBegan, oneEnded);
        }
    }

    /** A long prompt comes when every stream has begun; how long do they wait for their next token meanwhile? */
    private void join(ObjectNode said) throws Exception {
        try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<Heard>> running = new ArrayList<>();
            long begin = System.nanoTime();
            for (int i = 0; i < streams; i++) {
                int[] ids = ids(5_000 + i, SHORT_PROMPT);
                running.add(clients.submit(() -> ask(ids, 4 * tokens)));
            }
            Thread.sleep((long) (1e3 * 1.5 * said.path("ttft_p99_s").doubleValue()));
            Heard joined = clients.submit(() -> ask(ids(7_000, prompt), 4)).get();
            long end = joined.at.getFirst();
            List<Heard> heard = new ArrayList<>();
            for (Future<Heard> each : running) {
                heard.add(each.get());
            }
            said.put("join_ttft_s", rounded(joined.first()));
            said.put("join_longest_gap_s", rounded(longest(heard, joined.asked, end)));
            said.put(
                    "join_streams_ended_before",
                    heard.stream().filter(each -> each.last() < end).count());
            said.put("join_began_after_s", rounded((joined.asked - begin) / 1e9));
        }
    }

    private static double longest(List<Heard> heard, long from, long to) {
        return heard.stream()
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

    private Heard ask(int[] ids, int maxTokens) throws IOException, InterruptedException {
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
        return new Heard(asked, at, count);
    }

    private static double percentile(List<Double> values, int percent) {
        List<Double> sorted = values.stream().sorted().toList();
        return sorted.get(Math.min(sorted.size() - 1, sorted.size() * percent / 100));
    }

    private static double rounded(double value) {
        return Double.parseDouble(String.format(Locale.ROOT, "%.3f", value));
    }
}
