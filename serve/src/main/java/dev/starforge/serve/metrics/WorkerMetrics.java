package dev.starforge.serve.metrics;

import dev.starforge.serve.engine.EngineStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;

/**
 * The metrics of a worker, under its own names and the names of vLLM, for existing dashboards.
 */
public final class WorkerMetrics {
    public static final String CONTENT_TYPE = Exposition.TYPE;

    /** The result of a request. */
    public enum RequestOutcome {
        OK,
        CANCELLED,
        TIMEOUT,
        INVALID,
        REJECTED,
        OUT_OF_MEMORY,
        FAILED;

        String label() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    private static final double[] DURATION_MS = {
        5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 300000
    };
    private static final double[] TO_FIRST = {
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80
    };
    private static final double[] BETWEEN = {
        0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10
    };
    private static final double[] END_TO_END = {
        0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480
    };
    private static final Duration RATE_WINDOW = Duration.ofSeconds(5);

    private final List<Metric> metrics = new ArrayList<>();
    private final Counter requests;
    private final Counter tokens;
    private final Counter promptTokens;
    private final Counter success;
    private final Histogram duration;
    private final Histogram firstToken;
    private final Histogram interToken;
    private final Histogram endToEnd;
    private final TokenRate rate = new TokenRate(RATE_WINDOW);

    /** Tokens generated since the start: while it grows, the engine works. */
    public long tokensGenerated() {
        return tokens.total();
    }

    /** @param status of the engine; read once per metric */
    public WorkerMetrics(String model, Supplier<EngineStatus> status, Supplier<Duration> uptime) {
        String label = "model_name=" + Exposition.quoted(model);
        String[] outcomes = List.of(RequestOutcome.values()).stream()
                .map(RequestOutcome::label)
                .toArray(String[]::new);
        requests = add(new Counter("worker_requests_total", "Requests by how they ended.", "", "outcome", outcomes));
        tokens = add(new Counter("worker_tokens_generated_total", "Tokens generated.", "", "", ""));
        promptTokens = add(new Counter("worker_prompt_tokens_total", "Tokens of prompts.", "", "", ""));
        duration = add(new Histogram(
                "worker_inference_duration_ms",
                "Time from a request's arrival to its end, in milliseconds.",
                "",
                DURATION_MS));
        gauge("worker_memory_bytes", "Memory of the device in use.", "", status, EngineStatus::memoryBytes);
        add(new CallbackMetric(
                "worker_uptime_seconds",
                "Time since the start.",
                "gauge",
                "",
                () -> uptime.get().toMillis() / 1e3));
        add(new CallbackMetric(
                "worker_tokens_per_second", "Tokens generated in the last seconds.", "gauge", "", rate::perSecond));
        gauge("vllm:num_requests_running", "Sequences in the batch.", label, status, EngineStatus::running);
        gauge("vllm:num_requests_waiting", "Sequences in the queue.", label, status, EngineStatus::waiting);
        gauge("vllm:kv_cache_usage_perc", "KV blocks in use; 1 is all.", label, status, EngineStatus::kvUsage);
        count(
                "vllm:prefix_cache_queries_total",
                "Prompt tokens looked up.",
                label,
                status,
                EngineStatus::prefixQueries);
        count("vllm:prefix_cache_hits_total", "Prompt tokens found.", label, status, EngineStatus::prefixHits);
        count("vllm:num_preemptions_total", "Sequences computed again.", label, status, EngineStatus::preemptions);
        success = add(new Counter(
                "vllm:request_success_total",
                "Sequences by how they ended.",
                label,
                "finished_reason",
                "abort",
                "length",
                "stop"));
        firstToken =
                add(new Histogram("vllm:time_to_first_token_seconds", "Time to the first token.", label, TO_FIRST));
        interToken = add(new Histogram(
                "vllm:inter_token_latency_seconds", "Time between two tokens of a sequence.", label, BETWEEN));
        endToEnd = add(new Histogram(
                "vllm:e2e_request_latency_seconds", "Time from a request's arrival to its end.", label, END_TO_END));
    }

    private <M extends Metric> M add(M metric) {
        metrics.add(metric);
        return metric;
    }

    private void gauge(
            String name,
            String help,
            String labels,
            Supplier<EngineStatus> status,
            ToDoubleFunction<EngineStatus> value) {
        add(new CallbackMetric(name, help, "gauge", labels, () -> value.applyAsDouble(status.get())));
    }

    private void count(
            String name,
            String help,
            String labels,
            Supplier<EngineStatus> status,
            ToDoubleFunction<EngineStatus> value) {
        add(new CallbackMetric(name, help, "counter", labels, () -> value.applyAsDouble(status.get())));
    }

    public void firstToken(Duration since) {
        firstToken.observe(seconds(since));
        token();
    }

    public void nextToken(Duration since) {
        interToken.observe(seconds(since));
        token();
    }

    private void token() {
        tokens.add("", 1);
        rate.count();
    }

    public void prompt(int count) {
        promptTokens.add("", count);
    }

    /** Counts a request that was not submitted to the engine. */
    public void refused(RequestOutcome outcome) {
        requests.add(outcome.label(), 1);
    }

    /** @param reason {@code stop}, {@code length} or {@code abort}, as in vLLM */
    public void ended(RequestOutcome outcome, String reason, Duration since) {
        requests.add(outcome.label(), 1);
        success.add(reason, 1);
        duration.observe(seconds(since) * 1e3);
        endToEnd.observe(seconds(since));
    }

    private static double seconds(Duration duration) {
        return duration.toNanos() / 1e9;
    }

    public String text() {
        Exposition out = new Exposition();
        metrics.forEach(metric -> metric.write(out));
        return out.toString();
    }
}
